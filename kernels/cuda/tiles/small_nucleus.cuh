// The end of a row with top_p alone whose nucleus has a bound that few tokens reach
// (nucleus_target.cuh).
//
// Contract. SmallNucleusList: all threads of all blocks. SmallNucleusEnd: all threads of the first
// block, after a barrier of all blocks; the lists of the others stay in their memory until they are
// told that the row has ended.
//
// Algorithm and cost. The tiles whose largest value reaches the bound are read again, from the ring
// where the row is in it, and what reaches the bound is listed by each block for itself. Up to 32
// tokens, which is most rows of a trained model, are ended by a warp in registers, a token a lane:
// a token is kept where what is larger weighs less than the target, and the kept ones of lower ids
// say where its part of the drawn range begins. All warps do so, lest they meet. Longer lists are
// put into 256 bins by value, whose masses say in which the threshold lies, and the values there
// are ranked; then what is kept into 256 bins by id, and the drawn position is found in the same
// way, by the same code. No tile is read for the token, and no sum of the index.
//
// With V = 50304 and one row an H100 takes 14 us for up to 2 tokens, 16 to 18 for 30 to 600, and 33
// by a bracket (nucleus_row.cuh). Tried: lists of up to 512 tokens ranked by all threads, 14 and 26
// us for 2 and 169 tokens; bins for all, 19.6 us for 2.
//
// Numerics: integers alone; the list's mass is compared with the target. Determinism: the order of
// the list does not show.
#pragma once

#include <climits>
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/shared_sums.cuh"
#include "cuda/tiles/block_draw.cuh"
#include "cuda/tiles/nucleus_part.cuh"
#include "cuda/tiles/row_results.cuh"

namespace fairdraw::cuda {

/// This block's part of a list of all that reaches a bound, by all threads of all blocks. It stays
/// in the memory of each block, and the sums in the index are as they were.
template <RowForm kForm, bool kFromProbs>
class SmallNucleusList : NucleusPart<kForm, kFromProbs> {
  using Part = NucleusPart<kForm, kFromProbs>;
  using Part::blocks_;
  using Part::memory_;
  using Part::row_;
  using typename Part::Pass;

 public:
  __device__ __forceinline__ SmallNucleusList(const SharedRow& place, const TileRule& rule)
      : Part(place, rule) {}

  /// How many tokens reach the bound; for all blocks.
  __device__ __forceinline__ unsigned run(std::int32_t bound) const {
    if (threadIdx.x == 0) memory_.listed = 0;
    __syncthreads();
    const typename Part::BlockList list{memory_.small().entry, NucleusMemory::kMostOfSmall};
    const float low = from_order_key(bound);
    this->visit_again(
        blocks_.steps(), [&](int tile) { return blocks_.kept_key(tile) >= bound; },
        [&](int tile, const RawTile& raw) {
          float x[kLaneValues];
          Pass::read(row_, raw, x);
          unsigned inside = 0;
#pragma unroll
          for (int i = 0; i < kLaneValues; ++i) inside |= x[i] >= low ? 1U << i : 0U;
          this->append(list, tile, x, inside);
        });
    __syncthreads();
    const RowCluster& cluster = blocks_.cluster();
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < cluster.blocks) {
      *cluster.at(&memory_.sizes[cluster.rank], thread) = memory_.listed;
    }
    cluster.sync();
    return __reduce_add_sync(
        kAllLanes, lane_of_thread() < cluster.blocks ? memory_.sizes[lane_of_thread()] : 0);
  }
};

/// The end, by all threads of the first block; n: tokens in the list, kMostOfSmall at most.
template <RowForm kForm, bool kFromProbs>
class SmallNucleusEnd : NucleusPart<kForm, kFromProbs> {
  using Part = NucleusPart<kForm, kFromProbs>;
  using Part::blocks_;
  using Part::memory_;
  using Part::place_;
  using Part::row_;
  using typename Part::Weights;
  using Entry = NucleusMemory::Entry;
  static constexpr int kBins = NucleusMemory::kKeyBins;

 public:
  __device__ __forceinline__ SmallNucleusEnd(const SharedRow& place, const TileRule& rule)
      : Part(place, rule), weights_(from_order_key(memory_.largest_key), rule) {}

  /// False where the list does not reach the target: nothing has been written then. By each warp
  /// for itself, a token a lane.
  __device__ __forceinline__ bool end_few(int n) const {
    const bool there = lane_of_thread() < n;
    const Entry mine = there ? entry(lane_of_thread()) : Entry{};
    std::uint64_t weight = there ? weight_of(mine.key) : 0;
    std::uint64_t larger = 0;
    std::uint64_t listed = 0;
#pragma unroll 1
    for (int lane = 0; lane < n; ++lane) {
      const std::uint64_t other = __shfl_sync(kAllLanes, weight, lane);
      listed += other;
      larger += __shfl_sync(kAllLanes, mine.key, lane) > mine.key ? other : 0;
    }
    if (listed < memory_.target) return false;
    const bool kept = there && larger < memory_.target;
    weight = kept ? weight : 0;
    std::uint64_t before = 0;
    std::uint64_t total = 0;
#pragma unroll 1
    for (int lane = 0; lane < n; ++lane) {
      const std::uint64_t other = __shfl_sync(kAllLanes, weight, lane);
      total += other;
      before += __shfl_sync(kAllLanes, mine.id, lane) < mine.id ? other : 0;
    }
    const std::int32_t threshold = __reduce_min_sync(kAllLanes, kept ? mine.key : INT_MAX);
    end_blocks();
    const std::uint64_t position = multiply_high(memory_.word, total);
    if (warp_of_thread() == 0 && before <= position && position - before < weight) {
      write(mine.id, threshold, total);
    }
    return true;
  }

  /// The same of any list; false, too, where too many of its values are in one bin.
  __device__ __forceinline__ bool end_many(int n) const {
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    NucleusMemory::Small& list = memory_.small();
    // What the other blocks have is put behind what this one has.
    for (int i = static_cast<int>(memory_.sizes[0]) + thread; i < n; i += threads) {
      list.entry[i] = entry(i);
    }
    const ListBins bins = list_bins();
    if (thread < kBins) memory_.masses[thread] = 0;
    if (thread == 0) memory_.ranked = 0, memory_.crossing = -1;
    __syncthreads();
    std::int32_t threshold = INT_MIN;
    std::uint64_t total = 0;
    std::uint64_t position = memory_.target - 1;  // in the order of values; then of ids
#pragma unroll 1
    for (int turn = 0;; ++turn) {
      const bool by_id = turn != 0;
#pragma unroll 1
      for (int i = thread; i < n; i += threads) {
        const Entry mine = list.entry[i];
        if (mine.key < threshold) continue;
        add_shared(&memory_.masses[bins.of(mine, by_id)], weight_of(mine.key));
      }
      __syncthreads();
      const std::uint64_t mass = thread < kBins ? memory_.masses[thread] : 0;
      if (thread < kBins) memory_.masses[thread] = 0;
      const std::uint64_t before = block_prefix(mass, memory_.sum_of_warp[turn]).before;
      if (before <= position && position - before < mass) {
        memory_.crossing = thread;
        memory_.above = before;
      }
      __syncthreads();
      const int crossing = memory_.crossing;
      if (crossing < 0) return false;
#pragma unroll 1
      for (int i = thread; i < n; i += threads) {
        const Entry mine = list.entry[i];
        if (mine.key < threshold || bins.of(mine, by_id) != crossing) continue;
        const int place = atomicAdd(&memory_.ranked, 1);
        if (place >= NucleusMemory::Small::kMostRanked) continue;
        list.ranked_key[place] = by_id ? -mine.id : mine.key;
        list.ranked_weight[place] = weight_of(mine.key);
      }
      __syncthreads();
      const int ranked = memory_.ranked;
      if (ranked > NucleusMemory::Small::kMostRanked) return false;
      if (by_id) end_blocks();
      if (thread < ranked) {
        const std::int32_t mine = list.ranked_key[thread];
        std::uint64_t upto = memory_.above;
        std::uint64_t own = 0;  // ties too
#pragma unroll 2
        for (int i = 0; i < ranked; ++i) {
          const std::uint64_t weight = list.ranked_weight[i];
          upto += list.ranked_key[i] >= mine ? weight : 0;
          own += list.ranked_key[i] == mine ? weight : 0;
        }
        if (position < upto && upto - own <= position) {
          if (by_id) {
            write(-mine, threshold, total);
          } else {
            memory_.threshold = mine;
            memory_.above_with_ties = upto;
          }
        }
      }
      if (by_id) return true;
      __syncthreads();
      threshold = memory_.threshold;
      total = memory_.above_with_ties;
      position = multiply_high(memory_.word, total);
      if (thread == 0) memory_.ranked = 0, memory_.crossing = -1;
      __syncthreads();
    }
  }

 private:
  /// In the unit.
  __device__ __forceinline__ std::uint64_t weight_of(std::int32_t key) const {
    return weights_.weigh(from_order_key(key)) >> memory_.drop;
  }
  /// Of the list of all blocks.
  __device__ __forceinline__ Entry entry(int number) const {
    int block = 0;
#pragma unroll 1
    for (; number >= static_cast<int>(memory_.sizes[block]); ++block) {
      number -= static_cast<int>(memory_.sizes[block]);
    }
    return *blocks_.cluster().at(memory_.small().entry + number, block);
  }
  /// Nothing more is needed of the other blocks.
  __device__ __forceinline__ void end_blocks() const {
    tell_blocks(blocks_.cluster(), place_.order, {PassKind::row_has_ended, {}, 0, 0});
    blocks_.cluster().arrive();
  }
  __device__ __forceinline__ void write(int token, std::int32_t threshold,
                                        std::uint64_t total) const {
    write_drawn(place_.task, place_.number(), token, memory_.largest_key, {threshold, row_.vocab()},
                static_cast<uint128_t>(total) << (kRowBits + memory_.drop));
  }

  /// The list's values in bins by their distance to the largest one, or by their ids: what comes
  /// first is in the first bin.
  struct ListBins {
    BinRule<kFromProbs> of_values;
    int id_bits;  ///< of an id, that its bin does not show

    __device__ __forceinline__ int of(const Entry& token, bool by_id) const {
      return by_id ? token.id >> id_bits
                   : of_values.bin_of(of_values.distance(from_order_key(token.key)));
    }
  };
  __device__ __forceinline__ ListBins list_bins() const {
    BinRule<kFromProbs> of_values(memory_.largest_key, 1.0F, kBins);
    const float reach = of_values.distance(from_order_key(memory_.bracket.low));
    of_values.bins_of_distance = rough_quotient(static_cast<float>(kBins), reach);
    constexpr int kBinBits = 8;
    static_assert(kBins == 1 << kBinBits && kBins <= kLeastThreadsOfBlock);
    const int bits = 32 - __clz(row_.vocab() - 1);
    return {of_values, bits > kBinBits ? bits - kBinBits : 0};
  }

  Weights weights_;
};

template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ bool end_few(const RowsTask& task, int blocks_log2, unsigned char* dynamic,
                                     PassOrder* order, float scale, int n) {
  return SmallNucleusEnd<kForm, kFromProbs>({task, blocks_log2, dynamic, order}, {scale, true})
      .end_few(n);
}
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ bool end_many(const RowsTask& task, int blocks_log2, unsigned char* dynamic,
                                      PassOrder* order, float scale, int n) {
  return SmallNucleusEnd<kForm, kFromProbs>({task, blocks_log2, dynamic, order}, {scale, true})
      .end_many(n);
}

}  // namespace fairdraw::cuda
