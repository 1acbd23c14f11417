// Tokens of a marked row that race, and the memory in which they race (mark_rows.cu).
//
// Contract. The blocks of a row share its tiles; each lists those of its tiles that have a token
// above a value, and its warps take one tile after the other. The result is the best contender of
// each warp, in RaceMemory. All warps of a block must call the functions of RowOfContenders.
//
// Algorithm and cost. A warp appends the tokens of a tile that race to a list, until it has one for
// each lane. So every word is computed on 32 lanes at once, even where survivors are rare. A word
// takes 70 instructions, of which each waits for another, and a candidate 110 in all. Most
// candidates lose by rough weights, which are floats: (1 - U) / W is above the block's least upper
// bound. The others compete out of line, by bounds of doubles.
//
// Brackets. In an open row (mark_rows.cu), the smallest values that weigh Z - target in all do not
// survive. A sample finds two values around the largest of them: in bins of 1/16 octave, it counts
// the largest value of each tile, whose keys are known, and the other values of one tile per warp,
// which stand for those of all tiles. Values below the threshold weigh little each, so that a sum
// over such a sample is off by about 3%; sums over the values above it would not be known from any
// sample, because few large values have most of the weight. Results do not depend on the sample.
#pragma once

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>

#include "cuda/device/row_cluster.cuh"
#include "cuda/outputs/kept_rule.cuh"
#include "cuda/outputs/mark_rows.h"
#include "cuda/tiles/mass_above.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_pass.cuh"
#include "serving/rules/watermark_rules.h"

namespace fairdraw::cuda {

inline constexpr int kMarkWarps = kMaxThreadsOfBlock / kWarp;  ///< most warps of a block
inline constexpr int kMaxTiles = kMaxVocab / kTileSize;
inline constexpr int kListed = kTileSize + kWarp;  ///< candidates of a warp's list, which takes a
                                                   ///< tile as long as it has fewer than kWarp
inline constexpr int kBinsOfOctave = 16;
inline constexpr int kBins = 32 * kBinsOfOctave;
inline constexpr int kBinsOfLane = kBins / kWarp;
/// Returns the place of a bin, such that lanes kBinsOfLane apart read different banks.
__host__ __device__ constexpr int place_of_bin(int bin) { return bin + bin / kBinsOfLane; }
inline constexpr unsigned kUnit = 16;  ///< count of a value in RaceMemory::bins

/// Token that may survive.
struct Candidate {
  float value;
  std::int32_t token;
};

/// Token in the race.
struct Contender {
  uint128_t weight;
  std::uint64_t word;
  ArrivalBounds bounds;  ///< infinite if there is no token
  std::int32_t token;
  float value;
};

__device__ inline Contender no_contender() { return {0, 0, {INFINITY, INFINITY}, -1, 0.0F}; }

__device__ inline Contender value_of_lane(const Contender& contender, int lane) {
  return {cuda::value_of_lane(contender.weight, lane),
          cuda::value_of_lane(contender.word, lane),
          {cuda::value_of_lane(contender.bounds.lower, lane),
           cuda::value_of_lane(contender.bounds.upper, lane)},
          cuda::value_of_lane(contender.token, lane),
          cuda::value_of_lane(contender.value, lane)};
}

/// Returns whether a contender comes before another one, by the integers. The function is out of
/// line, because it is rarely executed.
__device__ __noinline__ inline bool arrives_first(const Contender& mine, const Contender& other) {
  const ArrivalTime time = arrival_time(mine.word);
  const ArrivalTime other_time = arrival_time(other.word);
  if (arrives_before(time, mine.weight, other_time, other.weight)) return true;
  return mine.token < other.token && !arrives_before(other_time, other.weight, time, mine.weight);
}

/// Sums of the rough weights of all values above the two values of a bracket.
struct BracketSums {
  float above_low, above_high;
};

/// Next step after a race.
enum class Verdict : std::int32_t {
  accepts,  ///< the winner survives
  tests,    ///< the weight above the winner decides
  widens,   ///< tokens that did not race may survive
};

/// Shared memory of a block. The blocks of a row write to the memory of the first one, and read
/// the winner in it.
struct RaceMemory {
  Contender finalists[kMaxBlocksOfRow * kMarkWarps];  ///< for each warp of the row, in the first
                                                      ///< block
  uint128_t above[kMaxBlocksOfRow * kMarkWarps];  ///< for each warp of the row, the weight of its
                                                  ///< tiles' values above the winner's
  Contender best[kMarkWarps];  ///< for each warp of the block, its best contender
  struct {
    std::int32_t token;  ///< in the first block
    float value;         ///< in an open row
  } winner;
  BracketSums sums[kMaxBlocksOfRow * kMarkWarps];  ///< for each warp of the row, in the first block
  /// For each part of an octave, the likely number of values, times kUnit.
  unsigned bins[place_of_bin(kBins)];
  std::uint16_t tiles[kMaxTiles];  ///< the block's tiles that reach the row's threshold
  int tile_count;
  int next_tile;
  unsigned least;  ///< upper bound of the block's least time, in units of 2^-kRoughUnit: the bits
                   ///< of a float, which have its order because it is positive
  Verdict verdict;
  RowMark mark;
  int has_stranger, is_repeated;
};

/// Parts of a row by which its tokens race.
struct RaceRule {
  std::uint64_t context_key;
  float scale;
  std::int32_t largest;      ///< key of the row's largest value
  const std::int32_t* keys;  ///< keys of the row's tiles
};

/// Returns the upper bound of the block's least time, in units of 2^-kRoughUnit.
__device__ __forceinline__ float least_of(RaceMemory& shared) {
  unsigned bits = 0;
  if (lane_of_thread() == 0) bits = atomicMin(&shared.least, __float_as_uint(INFINITY));
  return __uint_as_float(cuda::value_of_lane(bits, 0));
}

/// Lets the contenders of the lanes race with the warp's best contender, and gives the block the
/// least upper bound. All lanes must call this function.
__device__ __noinline__ inline void admit(const Contender& mine, double least, RaceMemory& shared) {
  Contender& best = shared.best[warp_of_thread()];
  least = Minimum{}(least, reduce_warp(mine.bounds.upper, Minimum{}));
  unsigned left =
      __ballot_sync(kAllLanes, mine.bounds.lower <= least && mine.bounds.lower < INFINITY);
#pragma unroll 1
  for (; left != 0; left &= left - 1) {
    const Contender other = value_of_lane(mine, __ffs(static_cast<int>(left)) - 1);
    const bool is_first = !(best.bounds.upper < other.bounds.lower) &&
                          (other.bounds.upper < best.bounds.lower || arrives_first(other, best));
    __syncwarp();
    if (is_first && lane_of_thread() == 0) best = other;
    __syncwarp();
  }
  if (lane_of_thread() == 0) {
    atomicMin(&shared.least, __float_as_uint(__double2float_ru(least * 0x1p103)));
  }
}

/// Lets candidates race whose words and rough weights do not show that they lose. The function is
/// out of line, because few candidates get here.
__device__ __noinline__ inline void compete(bool enters, const Candidate mine, std::uint64_t word,
                                            float least_of_block, const RaceRule rule,
                                            RaceMemory& shared) {
  const double least = Minimum{}(shared.best[warp_of_thread()].bounds.upper,
                                 static_cast<double>(least_of_block) * 0x1p-103);
  Contender contender = no_contender();
  if (enters) {
    const RowWeigher<false> weigher({rule.scale, true}, rule.largest);
    const std::int32_t key = rule.keys[mine.token / kTileSize];
    const auto weight = weigher.shifted(mine.value, key);
    contender.weight = shifted_to_row(weight.of_tile, weight.shift);
    const double unit = nearest_double(contender.weight);
    if (contender.weight != 0 && !arrives_after(word, unit, least)) {
      contender.word = word;
      contender.bounds = arrival_bounds(word, unit);
      contender.token = mine.token;
      contender.value = mine.value;
    }
  }
  admit(contender, least, shared);
}

/// Tokens of one row that race, of which each warp takes those of its tiles.
template <RowForm kForm>
class RowOfContenders {
 public:
  __device__ RowOfContenders(const MarkRowsTask& task, std::int64_t number, const RowRecord& record,
                             int warp, int warps)
      : row_(task.filtered.rows, task.filtered.allowed, number, /*from_probs=*/false,
             task.filtered.edits),
        keys_(task.keys.data + number * task.keys.row_stride),
        kept_(KeptRule::of(record, /*from_probs=*/false)),
        rule_{0, logit_scale(task.filtered.temperature.at(number)), order_key(record.max), keys_},
        warp_(warp),
        warps_(warps) {
    // Without exact floats, rough weights are infinite, so that they exclude nothing.
    const bool exact = float_octaves_are_exact(record.max, rule_.scale);
    factor_ = exact ? rule_.scale : 0.0F;
    octave_ = exact ? float_octave_origin(record.max, rule_.scale) - kOctaveOrigin : -INFINITY;
  }

  __device__ void set_context(std::uint64_t context_key) { rule_.context_key = context_key; }
  /// Returns the values of set_low and set_high.
  __device__ float low() const { return low_; }
  __device__ float high() const { return high_; }
  /// Lets only tokens with a larger value race; all allowed tokens if it is minus infinity.
  __device__ void set_low(float low) {
    low_ = low;
    kept_ = low == -INFINITY ? KeptRule{-FLT_MAX, INT_MAX, -1} : KeptRule{low, 0, -1};
  }
  /// Makes run() sum the tokens with a larger value, too.
  __device__ void set_high(float high) { high_ = high; }

  /// Returns a value below which no token weighs more than `cut`, in units of 2^kRoughUnit.
  __device__ float value_of_weight(float cut) const {
    if (!is_exact() || !(cut > 0x1p-100F)) return -INFINITY;
    return value_of(__log2f(cut));
  }

  /// Counts the largest value of each tile, and the other values of a few tiles, which stand for
  /// those of all tiles and are the same in all blocks of the row.
  __device__ __forceinline__ void sample(RaceMemory& shared) const {
    if (!is_exact()) return;
    RawTile raws[kSampled];
    int tiles[kSampled];
    std::int32_t keys[kSampled];
#pragma unroll
    for (int i = 0; i < kSampled; ++i) {
      const int number = warp_of_thread() * kSampled + i;
      tiles[i] = sampled_tile(number);
      if (number > 0 && tiles[i] == sampled_tile(number - 1)) tiles[i] = -1;
      if (tiles[i] < 0) continue;
      keys[i] = keys_[tiles[i]];
      load_again(row_, tiles[i], raws[i]);
    }
#pragma unroll 2
    for (int tile = static_cast<int>(threadIdx.x); tile < row_.tiles();
         tile += static_cast<int>(blockDim.x)) {
      count(from_order_key(keys_[tile]), kUnit, shared);
    }
    const auto many = static_cast<unsigned>(row_.tiles());
    const unsigned of_value = (kUnit * many + sampled() / 2) / sampled();
#pragma unroll
    for (int i = 0; i < kSampled; ++i) {
      if (tiles[i] < 0) continue;
      float x[kLaneValues];
      TilePass<kForm, false>::read(row_, raws[i], x);
#pragma unroll
      for (const float value : x) {
        if (value < from_order_key(keys[i])) count(value, of_value, shared);
      }
    }
  }

  /// Returns the values between which the values whose smaller ones weigh `below` are likely to be,
  /// by the counted values; `below` is in units of 2^kRoughUnit.
  __device__ __forceinline__ void find_bracket(float below, const RaceMemory& shared, float& low,
                                               float& high) const {
    low = -INFINITY;
    high = INFINITY;
    if (!is_exact()) return;
    const int last =
        kBins - 1 - lane_of_thread() * kBinsOfLane;  // lanes go from the lowest values on
    float sum = 0;
    int first_seen = kBins;
#pragma unroll 4
    for (int i = 0; i < kBinsOfLane; ++i) {
      const unsigned count = shared.bins[place_of_bin(last - i)];
      sum += static_cast<float>(count) * weight_of_bin(last - i);
      if (count != 0) first_seen = last - i;
    }
    first_seen = __reduce_min_sync(kAllLanes, first_seen);
    float prefix = warp_inclusive_sum(sum) - sum;
    const float wanted = below * static_cast<float>(kUnit);
    int low_bin = kBins, high_bin = -1;
#pragma unroll 4
    for (int i = 0; i < kBinsOfLane; ++i) {
      prefix += static_cast<float>(shared.bins[place_of_bin(last - i)]) * weight_of_bin(last - i);
      if (prefix * kAbove <= wanted) low_bin = last - i;
      if (high_bin < 0 && prefix * kBelow >= wanted) high_bin = last - i;
    }
    low_bin = max(__reduce_min_sync(kAllLanes, low_bin), first_seen);
    high_bin = __reduce_max_sync(kAllLanes, high_bin);
    if (low_bin < kBins) low = value_of(top_of_bin(low_bin));
    if (high_bin >= 0) high = value_of(top_of_bin(high_bin));
  }

  /// Lists the block's tiles that have tokens that race, with the threads from `first_thread` on.
  __device__ __forceinline__ void list_tiles(int first_thread, const RowCluster& cluster,
                                             RaceMemory& shared) const {
    const int threads = static_cast<int>(blockDim.x) - first_thread;
#pragma unroll 1
    for (int first = 0; first * cluster.blocks < row_.tiles(); first += threads) {
      const int tile =
          (first + static_cast<int>(threadIdx.x) - first_thread) * cluster.blocks + cluster.rank;
      const std::int32_t key = tile < row_.tiles() ? keys_[tile] : kEmptyTileKey;
      const bool wanted = key > kEmptyTileKey && kept_.reaches(tile, key);
      const unsigned all = __ballot_sync(kAllLanes, wanted);
      int place = 0;
      if (lane_of_thread() == 0 && all != 0) place = atomicAdd(&shared.tile_count, __popc(all));
      place = cuda::value_of_lane(place, 0) + __popc(all & ((1U << lane_of_thread()) - 1U));
      if (wanted) shared.tiles[place] = static_cast<std::uint16_t>(tile);
      if (__popc(all) > kFew) continue;
#pragma unroll 1
      for (unsigned left = all; left != 0; left &= left - 1) {
        fetch(cuda::value_of_lane(tile, __ffs(static_cast<int>(left)) - 1));
      }
    }
  }

  /// Lets the tokens of the block's listed tiles race, of which a warp takes one after the other.
  /// The next tile is read while candidates race. `listed` has room for kListed candidates.
  __device__ __forceinline__ BracketSums run(Candidate* listed, RaceMemory& shared) const {
    const int tiles = shared.tile_count;
    BracketSums sums{};
    int count = 0;
    int next = next_tile(shared);
    RawTile raw;
    if (next < tiles) load_again(row_, shared.tiles[next], raw);
#pragma unroll 1
    while (true) {
#pragma unroll 1
      while (count < kWarp && next < tiles) {
        list(shared.tiles[next], raw, listed, count);
        next = next_tile(shared);
        if (next < tiles) load_again(row_, shared.tiles[next], raw);
      }
      if (count == 0) break;
      __syncwarp();
      const int taken = min(count, kWarp);
      count -= taken;
      const Candidate mine = listed[count + min(lane_of_thread(), taken - 1)];
      __syncwarp();
      take(lane_of_thread() < taken, mine, sums, shared);
    }
    return {reduce_warp(sums.above_low, Add{}), reduce_warp(sums.above_high, Add{})};
  }

  /// Returns the weight of the values above x in the warp's tiles.
  __device__ __forceinline__ uint128_t weight_above(float x) const {
    const TileWeighing rule{rule_.scale, true};
    const RowOctave<false> octave(rule_.scale, rule_.largest);
    uint128_t sum = 0;
#pragma unroll 1
    for (int first = warp_; first < row_.tiles(); first += kWarp * warps_) {
      const int mine = first + lane_of_thread() * warps_;
      const std::int32_t key = mine < row_.tiles() ? keys_[mine] : kEmptyTileKey;
      unsigned left = __ballot_sync(kAllLanes, key > order_key(x));
#pragma unroll 1
      for (; left != 0; left &= left - 1) {
        const int lane = __ffs(static_cast<int>(left)) - 1;
        const std::int32_t key_of_tile = cuda::value_of_lane(key, lane);
        RawTile raw;
        load_again(row_, first + lane * warps_, raw);
        float values[kLaneValues];
        TilePass<kForm, false>::read(row_, raw, values);
#pragma unroll
        for (float& value : values) value = value > x ? value : -INFINITY;
        sum += shifted_to_row(TilePass<kForm, false>::sum(values, key_of_tile, rule),
                              octave.shift_of(key_of_tile));
      }
    }
    return sum;
  }

 private:
  /// Factor of the bound 1 - U that covers all errors of rough weights, which are below 2^-12.
  static constexpr float kRoughMargin = 1.0F - 0x1p-10F;

  /// Number of tiles per warp that are sampled.
  static constexpr int kSampled = 1;
  /// Factors that make a sum of sampled weights likely to be above or below the true sum.
  static constexpr float kAbove = 1.12F, kBelow = 0.9F;

  /// Returns whether float octaves are exact for the row.
  __device__ bool is_exact() const { return factor_ != 0.0F; }
  /// Returns the octaves of a value above the octave of the row's largest value.
  __device__ __forceinline__ float octaves_of(float value) const {
    return __fmaf_rn(value, factor_, -octave_);
  }
  /// Returns a value that has fewer than the given octaves, by 2^-9 and more.
  __device__ float value_of(float octaves) const {
    const float sum = octave_ + octaves;
    return (sum - fabsf(sum) * 0x1p-20F - 0x1p-9F) * __frcp_rn(rule_.scale);
  }
  __device__ static float top_of_bin(int bin) {
    return 0.5F - static_cast<float>(bin) / kBinsOfOctave;
  }
  __device__ static float weight_of_bin(int bin) {
    return rough_exp2(top_of_bin(bin) - 0.5F / kBinsOfOctave);
  }
  __device__ unsigned sampled() const {
    return static_cast<unsigned>(min(row_.tiles(), kSampled * warps_of_block()));
  }
  __device__ __forceinline__ void count(float value, unsigned number, RaceMemory& shared) const {
    const float bin = (0.5F - octaves_of(value)) * kBinsOfOctave;
    if (bin < kBins) atomicAdd(&shared.bins[place_of_bin(max(static_cast<int>(bin), 0))], number);
  }
  __device__ int sampled_tile(int number) const {
    return static_cast<int>(static_cast<unsigned>(number) * static_cast<unsigned>(row_.tiles()) /
                            static_cast<unsigned>(kSampled * warps_of_block()));
  }

  /// Number of tiles, of those that the lanes of a warp list, up to which the tiles are fetched.
  static constexpr int kFew = 8;
  /// Loads a tile into the L1 cache.
  __device__ __forceinline__ void fetch(int tile) const {
    const int token = tile * kTileSize + lane_of_thread() * kLaneValues;
    if (token >= row_.vocab()) return;
    std::uint32_t unused = 0;
    asm volatile("ld.global.nc.b8 %0, [%1];"
                 : "=r"(unused)
                 : "l"(row_.values().bytes + std::int64_t{token} * value_size(kForm.type)));
  }

  __device__ __forceinline__ static int next_tile(RaceMemory& shared) {
    int next = 0;
    if (lane_of_thread() == 0) next = atomicAdd(&shared.next_tile, 1);
    return cuda::value_of_lane(next, 0);
  }

  /// Appends the tokens of a tile that race to the warp's list of `count` candidates.
  __device__ __forceinline__ void list(int tile, const RawTile& raw, Candidate* listed,
                                       int& count) const {
    float x[kLaneValues];
    TilePass<kForm, false>::read(row_, raw, x);
    const unsigned lower = (1U << lane_of_thread()) - 1U;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const int token = RowOfTiles<kForm>::id_of(tile, i);
      const bool races = kept_.keeps(x[i], token);
      const unsigned all = __ballot_sync(kAllLanes, races);
      if (races) listed[count + __popc(all & lower)] = {x[i], token};
      count += __popc(all);
    }
  }

  /// Lets the candidates of the lanes race. The time of a candidate is at least (1 - U) / W.
  __device__ __forceinline__ void take(bool enters, const Candidate& mine, BracketSums& sums,
                                       RaceMemory& shared) const {
    const float least = least_of(shared);
    const std::uint64_t word = keyed_word(rule_.context_key, mine.token);
    const float rest = __uint2float_rz(static_cast<std::uint32_t>(~word >> 32)) * 0x1p-32F;
    const float weight = rough_exp2(octaves_of(mine.value));
    sums.above_low += enters ? weight : 0.0F;
    sums.above_high += enters && mine.value > high_ ? weight : 0.0F;
    enters = enters && !(rest * kRoughMargin > weight * least);
    if (__any_sync(kAllLanes, enters) != 0) compete(enters, mine, word, least, rule_, shared);
  }

  RowOfTiles<kForm> row_;
  const std::int32_t* keys_;
  KeptRule kept_;
  RaceRule rule_;
  float factor_, octave_;  ///< factor and difference that make a value its octaves below the row's
                           ///< largest value
  float low_ = -INFINITY, high_ = INFINITY;  ///< bracket of an open row
  int warp_, warps_;
};

}  // namespace fairdraw::cuda
