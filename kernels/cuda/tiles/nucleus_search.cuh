// The threshold and the token of a row with top_p alone, by a pass over a bracket and by its list.
//
// Contract. The guess (nucleus_guess.cuh) has left the target, the unit, and a bracket. All threads
// of all blocks take part in the pass; the threads of the first block in what comes then.
//
// Algorithm and cost. A pass reads the tiles whose largest value reaches the bracket, adds up what
// is above it, by tile, and lists what is in it, in the first block's memory. Then masses of the
// list in 256 bins, ranks in one bin, what is kept of the list to the sums of its tiles, prefix
// sums over the tiles, and one tile is read for the token.
//
// Determinism: integers decide; the order of the list does not show.
#pragma once

#include <climits>
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/shared_sums.cuh"
#include "cuda/tiles/block_draw.cuh"
#include "cuda/tiles/nucleus_guess.cuh"
#include "cuda/tiles/row_results.cuh"

namespace fairdraw::cuda {

/// Where the threshold is.
enum class NucleusPlace : std::int32_t { in_bracket, above, below, unknown };

struct NucleusSearch {
  NucleusPlace place;
  std::int32_t threshold;  ///< if it is in the bracket
};

/// One block's part of a pass.
template <RowForm kForm, bool kFromProbs>
class NucleusPass : NucleusPart<kForm, kFromProbs> {
  using Part = NucleusPart<kForm, kFromProbs>;
  using Part::blocks_;
  using Part::kEmpty;
  using Part::memory_;
  using Part::row_;
  using Part::rule_;
  using typename Part::Pass;

 public:
  __device__ __forceinline__ NucleusPass(const SharedRow& place, const TileRule& rule)
      : Part(place, rule) {}

  /// This block's part of a pass: sums of what is above a bracket, and what is in it to the list.
  __device__ __forceinline__ void run(const KeyInterval& bracket) {
    if (threadIdx.x == 0) memory_.listed = 0;
    __syncthreads();
    pass_tiles(bracket);
    __syncthreads();
    if (threadIdx.x == 0) {
      *blocks_.cluster().at(&memory_.sizes[blocks_.cluster().rank], 0) = memory_.listed;
    }
  }

 private:
  __device__ __forceinline__ void pass_tiles(const KeyInterval& bracket) {
    const TileSteps steps = blocks_.steps();
    const auto reaches = [&](int tile) { return blocks_.kept_key(tile) >= bracket.low; };
    for (int tile = steps.first + lane_of_thread() * steps.step; tile < steps.end;
         tile += kWarp * steps.step) {
      if (!reaches(tile)) blocks_.send_no_sum(tile);
    }
    const auto list = this->list_of_block();
    const float low = from_order_key(bracket.low);
    const float high = from_order_key(bracket.high);
    this->visit_again(steps, reaches,
                      [&](int tile, const RawTile& raw) { measure(tile, raw, low, high, list); });
  }

  __device__ __forceinline__ void measure(int tile, const RawTile& raw, float low, float high,
                                          const typename Part::BlockList& list) {
    float x[kLaneValues];
    Pass::read(row_, raw, x);
    unsigned inside = 0;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) inside |= x[i] >= low && x[i] <= high ? 1U << i : 0U;
    this->append(list, tile, x, inside);
    std::uint64_t sum = 0;
    if (from_order_key(blocks_.kept_key(tile)) > high) {
#pragma unroll
      for (float& value : x) value = value > high ? value : kEmpty;
      bool exact = true;  // set_unit() has seen to that
      sum = Pass::quick_sum(x, blocks_.kept_key(tile), rule_, exact);
    }
    blocks_.send_sum(tile, sum);
  }
};

/// The first block's part after a pass.
template <RowForm kForm, bool kFromProbs>
class NucleusSearcher : NucleusPart<kForm, kFromProbs> {
  using Part = NucleusPart<kForm, kFromProbs>;
  using Part::blocks_;
  using Part::memory_;
  using Part::place_;
  using Part::row_;
  using Part::rule_;
  using Part::share_of_block;
  using typename Part::Weights;

 public:
  __device__ __forceinline__ NucleusSearcher(const SharedRow& place, const TileRule& rule)
      : Part(place, rule) {}

  /// Calls visit(key, id) for this thread's part of the list.
  template <class Visit>
  __device__ __forceinline__ void for_each_listed(const Visit& visit) const {
    const auto share = static_cast<unsigned>(share_of_block());
    const unsigned blocks = 1U << place_.blocks_log2;
    const unsigned reciprocal = 0xffffffffU / share + 1;  // exact below 2^32 / share
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < share * blocks; i += blockDim.x) {
      const auto block = static_cast<unsigned>((std::uint64_t{i} * reciprocal) >> 32);
      if (i - block * share >= memory_.sizes[block]) continue;
      const NucleusMemory::Entry entry = memory_.list()[i];
      visit(entry.key, entry.id);
    }
  }

  /// Whether each block had room for what it wanted to list.
  __device__ __forceinline__ bool lists_fit() const {
    const int lane = lane_of_thread();
    return __any_sync(kAllLanes,
                      lane < blocks_.cluster().blocks &&
                          memory_.sizes[lane] > static_cast<unsigned>(share_of_block())) == 0;
  }

  /// By all threads of the first block: the smallest key of the nucleus, whose weights have been
  /// added up by tile.
  __device__ __forceinline__ NucleusSearch search(const KeyInterval& bracket) {
    const auto thread = static_cast<int>(threadIdx.x);
    if (!lists_fit()) {
      return {NucleusPlace::unknown, 0};
    }
    const RowIndex index = blocks_.index();
    std::uint64_t* sums = blocks_.sums();
    const Weights weights(from_order_key(memory_.largest_key), rule_);
    std::uint64_t mine = 0;
#pragma unroll 1
    for (int tile = thread; tile < index.tiles; tile += static_cast<int>(blockDim.x)) {
      std::uint64_t sum = sums[tile];
      if (sum != 0) sum >>= memory_.drop + weights.octaves_below(from_order_key(index.keys[tile]));
      sums[tile] = sum;
      mine += sum;
    }
    clear_masses();
    const std::uint64_t above = block_prefix(mine, memory_.sum_of_warp[0]).total;
    if (above >= memory_.target) return {NucleusPlace::above, 0};
    std::int32_t threshold = INT_MAX;
    if (!find_threshold(weights, bracket, above, threshold)) return {NucleusPlace::below, 0};
    for_each_listed([&](std::int32_t key, int id) {
      if (key >= threshold) add_shared(sums + id / kTileSize, weight_of(weights, key));
    });
    __syncthreads();
    return {NucleusPlace::in_bracket, threshold};
  }

 private:
  /// In the unit.
  __device__ __forceinline__ std::uint64_t weight_of(const Weights& weights,
                                                     std::int32_t key) const {
    return weights.weigh(from_order_key(key)) >> memory_.drop;
  }

  __device__ __forceinline__ void clear_masses() {
    if (threadIdx.x < NucleusMemory::kKeyBins) memory_.masses[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
      memory_.ranked = 0;
      memory_.crossing = -1;
      memory_.threshold = INT_MAX;
    }
  }

  /// The smallest key of the nucleus; `above` is the mass above the bracket, less than the target.
  /// False where the list does not reach the target. After clear_masses and a barrier.
  __device__ __forceinline__ bool find_threshold(const Weights& weights, KeyInterval open,
                                                 std::uint64_t above, std::int32_t& threshold) {
    static_assert(NucleusMemory::kKeyBins == KeySelection::kBins &&
                  NucleusMemory::kKeyBins <= kLeastThreadsOfBlock);
    const auto thread = static_cast<int>(threadIdx.x);
    const std::uint64_t target = memory_.target;
#pragma unroll 1
    while (true) {
      for_each_listed([&](std::int32_t key, int) {
        if (open.holds(key)) add_shared(&memory_.masses[open.bin_of(key)], weight_of(weights, key));
      });
      __syncthreads();
      const int bin = NucleusMemory::kKeyBins - 1 - thread;  // the largest keys first
      const std::uint64_t mass = bin >= 0 ? memory_.masses[bin] : 0;
      const std::uint64_t before = above + block_prefix(mass, memory_.sum_of_warp[1]).before;
      if (before < target && before + mass >= target) {
        memory_.crossing = bin;
        memory_.above = before;
      }
      __syncthreads();
      if (memory_.crossing < 0) return false;
      open = open.of_bin(memory_.crossing);
      above = memory_.above;
      if (open.single()) {
        threshold = open.low;
        return true;
      }
      for_each_listed([&](std::int32_t key, int) {
        if (!open.holds(key)) return;
        const int place = atomicAdd(&memory_.ranked, 1);
        if (place >= NucleusMemory::kMostRanked) return;
        memory_.ranked_key[place] = key;
        memory_.ranked_weight[place] = weight_of(weights, key);
      });
      __syncthreads();
      const int ranked = memory_.ranked;
      if (ranked <= NucleusMemory::kMostRanked) {
        if (thread < ranked) {
          const std::int32_t key = memory_.ranked_key[thread];
          std::uint64_t larger = above;
#pragma unroll 2
          for (int i = 0; i < ranked; ++i) {
            larger += memory_.ranked_key[i] > key ? memory_.ranked_weight[i] : 0;
          }
          if (larger < target) atomicMin(&memory_.threshold, key);
        }
        __syncthreads();
        threshold = memory_.threshold;
        return true;
      }
      __syncthreads();
      clear_masses();
      __syncthreads();
    }
  }

 public:
  /// The token, by the sums of what is kept; by all threads of the first block. Those of others,
  /// which have nothing to do, do the same on the row's own sums and write nothing: so the code is
  /// in L2 when the first block comes to it, and not in memory.
  __device__ __forceinline__ void draw(std::int32_t threshold, bool writes) const {
    const Weights weights(from_order_key(memory_.largest_key), rule_);
    const RowIndex index = blocks_.index();
    const DrawnTile<std::uint64_t> drawn = draw_tile(
        index.tiles, [&](int tile) { return index.sums[tile]; }, memory_.word, memory_.drawn);
    if (warp_of_thread() != 0) return;
    float x[kLaneValues];
    row_.read_in_order(drawn.tile, x);
    const float low = from_order_key(threshold);
    std::uint64_t kept[kLaneValues];
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i)
      kept[i] = x[i] >= low ? weights.weigh(x[i]) >> memory_.drop : 0;
    const std::int32_t token = token_in_tile(drawn.tile, kept, drawn.within);
    if (threadIdx.x == 0 && writes) {
      write_drawn(place_.task, place_.number(), token, memory_.largest_key,
                  {threshold, row_.vocab()},
                  static_cast<uint128_t>(drawn.total) << (kRowBits + memory_.drop));
    }
  }
};

template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void called_pass_of_nucleus(const RowsTask& task, int blocks_log2,
                                                    unsigned char* dynamic, float scale,
                                                    KeyInterval bracket) {
  NucleusPass<kForm, kFromProbs>({task, blocks_log2, dynamic, nullptr}, {scale, true}).run(bracket);
}

template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ NucleusSearch search_nucleus(const RowsTask& task, int blocks_log2,
                                                     unsigned char* dynamic, float scale,
                                                     KeyInterval bracket) {
  return NucleusSearcher<kForm, kFromProbs>({task, blocks_log2, dynamic, nullptr}, {scale, true})
      .search(bracket);
}

template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void draw_from_nucleus(const RowsTask& task, int blocks_log2,
                                               unsigned char* dynamic, float scale,
                                               std::int32_t threshold, bool writes) {
  NucleusSearcher<kForm, kFromProbs>({task, blocks_log2, dynamic, nullptr}, {scale, true})
      .draw(threshold, writes);
}

}  // namespace fairdraw::cuda
