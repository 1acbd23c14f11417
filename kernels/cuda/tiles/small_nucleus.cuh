// A row with top_p alone whose nucleus is a few hundred tokens, as most rows of a trained model
// are: a bound that all of them reach, and the threshold and the token among what reaches it.
//
// Contract. The bound: all blocks have the row's whole index, all threads of all blocks take part
// and agree. The end: all threads of the first block, when all that reaches the bound has been
// listed (NucleusPass).
//
// Algorithm and cost. A tile with the largest value M and the sum S, in which n values are at most
// as large as b <= M, holds at least max(w(M), S - n w(b)) above b. The index alone says so: for 16
// values b, 1.25 octaves apart, the block adds that up over all tiles, and the first b for which it
// reaches the target is the bound, unless so many tiles reach it that the list would be long. No
// value is counted for it, and no sample can miss. Of 48 rows of a trained model, in the order
// temperature 1, 0.7, 0.6: 19, 37, 39 have such a bound at top_p 0.9, and at most 512 tokens that
// reach it; 16, 33, 37 at 0.95; 12, 26, 31 at 0.99.
//
// At the end each thread has one listed token, and reads the list twice: what is larger than its
// token weighs less than the target where the token is kept; and kept tokens of lower ids say where
// its own part of the drawn range begins. No tile is read again, and no sum of the index.
//
// Numerics: the bound is made by floats and decides nothing: the list's mass is compared with the
// target. Determinism: integers decide; the order of the list does not show.
#pragma once

#include <climits>
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/nucleus_part.cuh"
#include "cuda/tiles/row_results.cuh"

namespace fairdraw::cuda {

/// This block's part of a list of all that reaches a bound, by all threads of all blocks. The sums
/// in the index stay as they are.
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

  /// How many tokens reach the bound; -1 where the list is too short for them. For all blocks.
  __device__ __forceinline__ int run(std::int32_t bound) const {
    if (threadIdx.x == 0) memory_.listed = 0;
    __syncthreads();
    const auto list = this->list_of_block();
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
    const unsigned mine = lane_of_thread() < cluster.blocks ? memory_.sizes[lane_of_thread()] : 0;
    const auto total = static_cast<int>(__reduce_add_sync(kAllLanes, mine));
    return this->lists_fit() ? total : -1;
  }
};

/// The end, by all threads of the first block.
template <RowForm kForm, bool kFromProbs>
class SmallNucleusEnd : NucleusPart<kForm, kFromProbs> {
  using Part = NucleusPart<kForm, kFromProbs>;
  using Part::blocks_;
  using Part::memory_;
  using Part::place_;
  using Part::row_;
  using Part::rule_;
  using Part::share_of_block;
  using typename Part::Weights;

 public:
  __device__ __forceinline__ SmallNucleusEnd(const SharedRow& place, const TileRule& rule)
      : Part(place, rule) {}

  /// n: tokens that are listed, at most one a thread. False where they do not reach the target, and
  /// nothing has been written; else the other blocks are told that the row has ended.
  __device__ __forceinline__ bool run(int n) const {
    const auto thread = static_cast<int>(threadIdx.x);
    const bool there = thread < n;
    const NucleusMemory::Entry mine = there ? entry(thread) : NucleusMemory::Entry{};
    __syncthreads();
    NucleusMemory::Few& few = memory_.few();
    std::uint64_t weight = 0;
    if (there) {
      const Weights weights(from_order_key(memory_.largest_key), rule_);
      weight = weights.weigh(from_order_key(mine.key)) >> memory_.drop;
      few.weight[thread] = weight;
      few.key[thread] = mine.key;
      few.id[thread] = mine.id;
    }
    __syncthreads();
    std::uint64_t larger = 0;
    std::uint64_t listed = 0;
#pragma unroll 4
    for (int i = 0; i < n; ++i) {
      listed += few.weight[i];
      larger += few.key[i] > mine.key ? few.weight[i] : 0;
    }
    const std::uint64_t target = memory_.target;
    if (listed < target) return false;
    tell_blocks(RowCluster{1 << place_.blocks_log2, 0}, place_.order,
                {PassKind::row_has_ended, {}, 0, 0});
    blocks_.cluster().arrive();
    const bool kept = there && larger < target;
    __syncthreads();
    if (there && !kept) few.weight[thread] = 0;  // a kept one's is 1 at least
    __syncthreads();
    std::uint64_t total = 0;
    std::uint64_t before = 0;
    std::int32_t low = INT_MAX;
#pragma unroll 4
    for (int i = 0; i < n; ++i) {
      const std::uint64_t other = few.weight[i];
      total += other;
      before += few.id[i] < mine.id ? other : 0;
      low = min(low, other != 0 ? few.key[i] : INT_MAX);
    }
    const std::uint64_t position = multiply_high(memory_.word, total);
    if (kept && before <= position && position - before < weight) {
      write_drawn(place_.task, place_.number(), mine.id, memory_.largest_key, {low, row_.vocab()},
                  static_cast<uint128_t>(total) << (kRowBits + memory_.drop));
    }
    return true;
  }

 private:
  /// The list without its gaps.
  __device__ __forceinline__ NucleusMemory::Entry entry(int number) const {
    int block = 0;
    int left = number;
#pragma unroll 1
    for (; left >= static_cast<int>(memory_.sizes[block]); ++block) {
      left -= static_cast<int>(memory_.sizes[block]);
    }
    return memory_.list()[block * share_of_block() + left];
  }
};

template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ bool end_small_nucleus(const RowsTask& task, int blocks_log2,
                                               unsigned char* dynamic, PassOrder* order,
                                               float scale, int n) {
  return SmallNucleusEnd<kForm, kFromProbs>({task, blocks_log2, dynamic, order}, {scale, true})
      .run(n);
}

}  // namespace fairdraw::cuda
