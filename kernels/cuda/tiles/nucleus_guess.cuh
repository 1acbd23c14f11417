// Where the threshold of a row with top_p alone is guessed to lie: a bracket, by all blocks of the
// row.
//
// Contract. All blocks have the row's whole index, its mass and its target (nucleus_target.cuh);
// all threads of all blocks take part, and agree on the answer: whether there is a bracket, and
// which. What lies in it is measured after (nucleus_row.cuh), and any bracket is right.
//
// Algorithm and cost. Each block counts values in bins, by their distance to the largest one: all
// of its part of the row where that is in its ring, else a quarter of it, spread over the row, at
// least eight tiles a warp. Then all blocks read all counts.
//
// One unit. A token that is e octaves below the row's largest one, e <= 32, weighs m 2^(80 - e)
// exactly (common/tile_weights.h): neither shift has cut anything. So all that reaches the bracket
// has weights that are multiples of that of its lowest octave, and in this unit the mass of the
// nucleus fits into 64 bits. That is tested before the pass: where the bracket is deeper, or the
// mass larger, or float arithmetic not exact, there is no token.
//
// The sample. Largest values of tiles are known from the index. Tiles of which the rest weighs more
// than a 256th of the mass are read whatever their place. All these stand for themselves alone, and
// each counts what it weighs; the others count what the middle of their bin does. The others'
// rest is what the sampled ones' is, by mass. The bracket is so many standard deviations wide.
// Since the mass L of all that is sampled is known, the variance is that of W(>= v) - s L, with s
// the part of L above v: what is above v counts 1 - s in it, the rest s.
//
// The list has room for so many values: where the bracket would have more it is made of parts of
// bins, and shorter than it should be.
//
// Determinism: the guess is made by floats, by every block in the same order, so that blocks agree;
// but for the bracket nothing of it shows.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/shared_sums.cuh"
#include "cuda/tiles/block_draw.cuh"
#include "cuda/tiles/nucleus_target.cuh"
#include "cuda/tiles/value_bins.cuh"
#include "cuda/tiles/warp_sample.h"

namespace fairdraw::cuda {

/// `change` of each member of one estimate, or of two.
template <class Change>
__device__ __forceinline__ Estimate each_of(const Estimate& a, const Change& change) {
  return {change(a.values), change(a.mass), change(a.sampled), change(a.of_sample),
          change(a.of_bins)};
}
template <class Change>
__device__ __forceinline__ Estimate each_of(const Estimate& a, const Estimate& b,
                                            const Change& change) {
  return {change(a.values, b.values), change(a.mass, b.mass), change(a.sampled, b.sampled),
          change(a.of_sample, b.of_sample), change(a.of_bins, b.of_bins)};
}
__device__ __forceinline__ Estimate operator+(const Estimate& a, const Estimate& b) {
  return each_of(a, b, [](float x, float y) { return x + y; });
}
__device__ __forceinline__ Estimate& operator+=(Estimate& a, const Estimate& b) {
  return a = a + b;
}
__device__ __forceinline__ Estimate operator-(const Estimate& a, const Estimate& b) {
  return each_of(a, b, [](float x, float y) { return x - y; });
}
__device__ __forceinline__ Estimate value_of_lane(const Estimate& mine, int lane) {
  return each_of(mine, [lane](float x) { return value_of_lane(x, lane); });
}

/// One block's part of the guess.
template <RowForm kForm, bool kFromProbs>
class NucleusGuess : NucleusPart<kForm, kFromProbs> {
  using Part = NucleusPart<kForm, kFromProbs>;
  using Part::blocks_;
  using Part::even_capacity;
  using Part::has_all_in_ring;
  using Part::memory_;
  using Part::place_;
  using Part::ring_;
  using Part::row_;
  using Part::rule_;
  using Part::value_of;
  using typename Part::Pass;
  using typename Part::Ring;
  using typename Part::Weights;
  using Bins = BinRule<kFromProbs>;
  static_assert(WarpSample::kAtOnce == Ring::kStages);
  static constexpr float kNarrow = 2.75F;  ///< deviations to each side: a miss in some 170 rows
  static constexpr float kWide = 9.0F;     ///< after a miss: what is beside the narrow bracket
  static constexpr float kRoom = 0.5F;     ///< of the list, that a wide one may fill from the start
  static constexpr float kFull = 0.8F;  ///< of the list, that any may: what is listed lies unevenly
  static constexpr float kHeavy = 0x1p-8F;   ///< of the mass
  static constexpr float kModel = 0x1p-15F;  ///< of the target: what sums of floats are wrong by
  static constexpr float kLeastVariance = 0x1p-20F;  ///< none, beside masses of 2^54 and more
  static constexpr float kUnits = 0x1p26F;  ///< of the mass: known weights are counted in them

 public:
  __device__ __forceinline__ NucleusGuess(const SharedRow& place, const TileRule& rule)
      : Part(place, rule) {}

  /// After the first pass of a warp: asks for the first tiles that it will count, if they are not
  /// in its ring.
  __device__ __forceinline__ void begin_sample() const {
    if (kForm.access == TileAccess::vectors && !has_all_in_ring()) start_sampled(0);
  }

  /// The bracket and the unit, to the memory of this block; false where there is none. After
  /// measure_nucleus. All blocks agree.
  __device__ __forceinline__ bool guess() {
    __syncthreads();  // what the first thread has measured
    const float mass = float_of_mass(memory_.mass);
    const float target = float_of_mass(memory_.row_target);
    const float of_largest = memory_.of_largest;
    const float reach = octaves_to_reach(mass, float_of_mass(memory_.mass - memory_.row_target),
                                         of_largest, row_.vocab());
    const Bins bins(
        memory_.largest_key,
        rough_quotient(static_cast<float>(blockDim.x),
                       kFromProbs ? reach * kKeysOfOctave : rough_quotient(reach, rule_.scale)),
        static_cast<int>(blockDim.x));
    const float heavy = mass * kHeavy;
    float each = 1.0F;
    if (!has_all_in_ring()) {
      each = called_value_of_sample(place_.task, place_.blocks_log2, place_.dynamic, rule_.scale,
                                    bins.largest, heavy);
    }
    called_count(place_.task, place_.blocks_log2, place_.dynamic, rule_.scale, bins,
                 kUnits * rough_quotient(of_largest, mass), heavy);
    blocks_.cluster().sync();
    return find_brackets(bins, mass, target, of_largest, each) && this->set_unit(memory_.wide.low);
  }

 private:
  __device__ WarpSample sample() const { return {blocks_.steps().count()}; }
  __device__ int sampled_tile(int i) const { return blocks_.steps().at(sample().number(i)); }
  __device__ bool is_sampled(int tile) const {
    const int warps = blocks_.warps();
    const int warps_log2 = 31 - __clz(warps);  // a power of two, as blocks and threads are
    const int count = ((row_.tiles() - 1 - (tile & (warps - 1))) >> warps_log2) + 1;
    return WarpSample{count}.holds(tile >> warps_log2);
  }
  /// Asks for those samples from a number on that the ring has room for.
  __device__ __forceinline__ void start_sampled(int first) const {
    const int end = min(first + Ring::kStages, sample().size());
    auto stage = Ring::first_stage();
#pragma unroll 1
    for (int i = first; i < end; ++i, stage = stage.next()) {
      ring_.start(row_, stage, sampled_tile(i));
      if (row_.is_masked()) ring_.start_bits(row_, stage, sampled_tile(i));
    }
    Ring::commit();
  }

  /// What a tile weighs without its largest value, in the unit of a row whose largest value has
  /// `weights`.
  __device__ __forceinline__ float rest_of(const Weights& weights, int tile) const {
    const RowIndex index = blocks_.index();
    const float largest = from_order_key(index.keys[tile]);
    const std::uint32_t below = weights.octaves_below(largest);
    if (below >= kTileOctaves) return 0.0F;
    const std::uint64_t sum = index.sums[tile] >> below;
    const std::uint64_t of_largest = weights.weigh(largest);
    return sum > of_largest ? static_cast<float>(sum - of_largest) : 0.0F;
  }

  /// How many values each sampled one of the tiles that are not heavy stands for. One barrier.
  __device__ __forceinline__ float value_of_sample(const Weights& weights, float heavy) const {
    float light = 0;    // what the tiles that are not heavy weigh
    float sampled = 0;  // and those of them that are counted
#pragma unroll 1
    for (int tile = static_cast<int>(threadIdx.x); tile < row_.tiles();
         tile += static_cast<int>(blockDim.x)) {
      const float weight = rest_of(weights, tile);
      if (weight > heavy) continue;
      light += weight;
      if (is_sampled(tile)) sampled += weight;
    }
    light = reduce_warp(light, Add{});
    sampled = reduce_warp(sampled, Add{});
    if (lane_of_thread() == 0) memory_.of_warp[warp_of_thread()] = {light, sampled};
    __syncthreads();
    const float2 mine =
        lane_of_thread() < warps_of_block() ? memory_.of_warp[lane_of_thread()] : float2{};
    light = reduce_warp(mine.x, Add{});
    sampled = reduce_warp(mine.y, Add{});
    return sampled > 0 ? rough_quotient(light, sampled) : 0.0F;
  }

  // What few rows do is called, with all arguments in registers: by reference to this object all of
  // it would lie in local memory, of every row.
  __device__ __noinline__ static float called_value_of_sample(const RowsTask& task, int blocks_log2,
                                                              unsigned char* dynamic, float scale,
                                                              float largest, float heavy) {
    const NucleusGuess row({task, blocks_log2, dynamic, nullptr}, {scale, true});
    return row.value_of_sample(Weights(largest, row.rule_), heavy);
  }
  __device__ __noinline__ static void called_count(const RowsTask& task, int blocks_log2,
                                                   unsigned char* dynamic, float scale, Bins bins,
                                                   float of_largest, float heavy) {
    const NucleusGuess row({task, blocks_log2, dynamic, nullptr}, {scale, true});
    row.count(bins, of_largest, heavy);
  }

  /// Counts this warp's part: largest values of tiles, and the rest of those that are sampled or
  /// heavy.
  __device__ __forceinline__ void count(const Bins& bins, float of_largest, float heavy) const {
    const Weights weights(bins.largest, rule_);
    const std::int32_t* keys = blocks_.index().keys;
    const TileSteps steps = blocks_.steps();
#pragma unroll 1
    for (int first = steps.first; first < steps.end; first += kWarp * steps.step) {
      const int mine = first + lane_of_thread() * steps.step;
      const bool there = mine < steps.end && keys[mine] > kEmptyTileKey;
      if (there) weigh_value(bins, from_order_key(keys[mine]), of_largest);
      // Those that are sampled are read below.
      unsigned lanes =
          __ballot_sync(kAllLanes, there && rest_of(weights, mine) > heavy && !is_sampled(mine));
#pragma unroll 1
      for (; lanes != 0; lanes &= lanes - 1) {
        const int tile = first + (__ffs(static_cast<int>(lanes)) - 1) * steps.step;
        RawTile raw;
        load_again(row_, tile, raw);
        float x[kLaneValues];
        Pass::read(row_, raw, x);
        weigh_rest(bins, keys[tile], x, of_largest);
      }
    }
    const int samples = sample().size();
#pragma unroll 1
    for (int first = 0; first < samples; first += Ring::kStages) {
      if constexpr (kForm.access == TileAccess::vectors) {
        if (first > 0) start_sampled(first);
        Ring::await_all();
      }
      auto stage = Ring::first_stage();
#pragma unroll 1
      for (int i = first; i < min(first + Ring::kStages, samples); ++i, stage = stage.next()) {
        const int tile = sampled_tile(i);
        if (keys[tile] == kEmptyTileKey) continue;
        RawTile raw;
        if constexpr (kForm.access == TileAccess::vectors) {
          ring_.read(row_, stage, tile, raw);
        } else {
          load_again(row_, tile, raw);
        }
        float x[kLaneValues];
        Pass::read(row_, raw, x);
        if (rest_of(weights, tile) > heavy) {
          weigh_rest(bins, keys[tile], x, of_largest);
          continue;
        }
        if (lane_of_thread() == 0) count_value(bins, from_order_key(keys[tile]), -1);
#pragma unroll
        for (const float value : x) count_value(bins, value, 1);
      }
    }
  }

  /// A heavy tile's values but its largest, which has been counted.
  __device__ __forceinline__ void weigh_rest(const Bins& bins, std::int32_t key,
                                             const float (&x)[kLaneValues],
                                             float of_largest) const {
    if (lane_of_thread() == 0) weigh_value(bins, from_order_key(key), -of_largest);
#pragma unroll 1
    for (int j = 0; j < kLaneValues; ++j) weigh_value(bins, value_of(x, j), of_largest);
  }

  __device__ __forceinline__ void count_value(const Bins& bins, float value, int one) const {
    const int bin = bins.bin_of(bins.distance(value));
    if (bin < bins.count - 1) atomicAdd(memory_.sampled_of(bin), static_cast<unsigned>(one));
  }
  /// of_largest: units of the largest value.
  __device__ __forceinline__ void weigh_value(const Bins& bins, float value,
                                              float of_largest) const {
    const float distance = bins.distance(value);
    const float weight =
        kFromProbs ? rough_quotient(value, bins.largest) : exp2f(distance * -rule_.scale);
    const int bin = bins.bin_of(distance);
    if (bin < bins.count - 1) {
      atomicAdd(memory_.units_of(bin),
                static_cast<unsigned>(static_cast<int>(rintf(weight * of_largest))));
    }
  }

  /// The brackets by all blocks' counts, a bin a thread. `each`: what a sampled value stands for.
  __device__ __forceinline__ bool find_brackets(const Bins& bins, float mass, float wanted,
                                                float of_largest, float each) {
    const auto thread = static_cast<int>(threadIdx.x);
    uint2 theirs[kMaxBlocksOfRow];
#pragma unroll
    for (int block = 0; block < kMaxBlocksOfRow; ++block) {
      const bool there = block < blocks_.cluster().blocks;
      theirs[block] =
          there ? *blocks_.cluster().at(memory_.bins + thread, block) : make_uint2(0, 0);
    }
    uint2 sums = make_uint2(0, 0);
#pragma unroll
    for (const uint2& bin : theirs) {
      sums.x += bin.x;
      sums.y += bin.y;
    }
    const bool swapped = NucleusMemory::has_units_first(thread);
    const unsigned sampled = swapped ? sums.y : sums.x;
    const unsigned units = swapped ? sums.x : sums.y;
    const float weight = of_largest * bins.weight_of(thread, rule_.scale);
    const float values = static_cast<float>(sampled) * each;
    const float known = static_cast<float>(units) * (mass / kUnits);
    // A sampled value stands for others. And all the values of a bin may be at one place in it, a
    // third of the square of its half width from the middle in the mean of squares.
    const float octaves =
        rough_quotient(kFromProbs ? 1.0F / kKeysOfOctave : rule_.scale, bins.bins_of_distance);
    const float half_width = 0.35F * octaves;  // ln 2 / 2
    const float of_sample = each > 1.0F ? values * each * weight * weight : 0.0F;
    const float of_bins = values * values * weight * weight * (half_width * half_width / 3.0F);
    const Estimate mine{values, known + values * weight, values * weight, of_sample, of_bins};
    const BlockPrefix<Estimate> prefix = block_prefix<Estimate>(mine, memory_.estimates);
    const Estimate upto = prefix.before + mine;
    // The mass of all that is sampled is known: what the sample is wrong by is how it is divided.
    const float share =
        prefix.total.sampled > 0 ? rough_quotient(upto.sampled, prefix.total.sampled) : 0.0F;
    const float variance = (1.0F - share) * (1.0F - share) * upto.of_sample +
                           share * share * (prefix.total.of_sample - upto.of_sample) + upto.of_bins;
    // A root of 0 is one of those that are called for (rough_quotient).
    const float deviation = sqrtf(fmaxf(variance, kLeastVariance)) + kModel * wanted;
    // The first bins with which the sum passes the target's neighbourhood.
    constexpr float kPlaces[5] = {-kWide, -kNarrow, kNarrow, kWide, 0.0F};
#pragma unroll
    for (int i = 0; i < 5; ++i) {
      const unsigned passed = __ballot_sync(kAllLanes, upto.mass > wanted + kPlaces[i] * deviation);
      if (passed != 0 && lane_of_thread() == 0) {
        atomicMin(&memory_.edges[i], thread + __ffs(static_cast<int>(passed)) - 1);
      }
    }
    __syncthreads();
    if (memory_.edges[2] >= bins.count - 1) return false;
    const int end_of_wide = memory_.edges[3] < bins.count - 1 ? memory_.edges[3] : memory_.edges[2];
    if (thread == memory_.edges[0]) memory_.of_wide[0] = prefix.before.values;
    if (thread == end_of_wide) memory_.of_wide[1] = upto.values;
    if (thread == memory_.edges[1]) memory_.of_narrow[0] = prefix.before.values;
    if (thread == memory_.edges[2]) memory_.of_narrow[1] = upto.values;
    if (thread == memory_.edges[4]) {  // which has a mass, since the sum passes the target in it
      const float part = rough_quotient(wanted - prefix.before.mass, mine.mass);
      memory_.middle = static_cast<float>(thread) + fminf(fmaxf(part, 0.0F), 1.0F);
      memory_.deviation = rough_quotient(deviation, mine.mass);
      memory_.values_of_bin = rough_quotient(mine.mass, weight);
    }
    if (thread < 2) {
      const int first = memory_.edges[1 - thread];
      KeyInterval& bracket = thread == 0 ? memory_.bracket : memory_.wide;
      bracket.high = first == 0 ? bins.largest_key : bins.key_of(static_cast<float>(first));
      const int last = thread == 0 ? memory_.edges[2] : end_of_wide;
      bracket.low = bins.key_of(static_cast<float>(last + 1));
    }
    __syncthreads();
    if (thread == 0) fit_bracket(bins);
    __syncthreads();
    return true;
  }

  /// By one thread: the bracket that the list has room for. Where few values weigh much the sample
  /// may have missed one: then there is room for the wide one. Where there is not even room for
  /// whole bins it ends within them, as if their values were spread evenly, and where that is too
  /// long for the list, too, it is shorter, and the next pass goes on beside it.
  __device__ __forceinline__ void fit_bracket(const Bins& bins) const {
    const float capacity = even_capacity();
    memory_.step = INFINITY;
    constexpr auto kMost = static_cast<float>(NucleusMemory::kMost);  // longer lists take longer
    if (memory_.of_wide[1] - memory_.of_wide[0] < kRoom * fminf(capacity, kMost)) {
      memory_.bracket = memory_.wide;
    } else if (memory_.of_narrow[1] - memory_.of_narrow[0] > kFull * capacity) {
      const float reach = fminf(kNarrow * memory_.deviation,
                                rough_quotient(0.5F * kFull * capacity, memory_.values_of_bin));
      const float first = memory_.middle - reach;
      if (first > 0.0F) {
        memory_.bracket.high = min(bins.key_of(first), memory_.wide.high);
      }
      memory_.bracket.low = max(bins.key_of(memory_.middle + reach), memory_.wide.low);
      memory_.step = rough_quotient(2.0F * reach, bins.bins_of_distance);
    }
  }
};

/// After a warp's first pass.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void begin_nucleus(const RowsTask& task, int blocks_log2,
                                           unsigned char* dynamic) {
  NucleusGuess<kForm, kFromProbs>({task, blocks_log2, dynamic, nullptr}, {}).begin_sample();
}

template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ bool guess_nucleus(const RowsTask& task, int blocks_log2,
                                           unsigned char* dynamic, float scale) {
  return NucleusGuess<kForm, kFromProbs>({task, blocks_log2, dynamic, nullptr}, {scale, true})
      .guess();
}

}  // namespace fairdraw::cuda
