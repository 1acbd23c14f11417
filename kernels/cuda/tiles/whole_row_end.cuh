// The end of a row whose survivors no list holds: any k, any ties, any distribution.
//
// One block reads the row again and again, each time only the tiles whose largest value counts: the
// levels of top_k and the steps of top_p (row_cut.cuh), then once for the weight of what is kept,
// by warp, and the warp that holds the drawn position finds the token in its part. A slow path for
// rare rows, bounded whatever the values: at most 5 + 3 readings for top_k and 33 for top_p.
#pragma once

#include <cstdint>

#include "cuda/tiles/row_end.cuh"
#include "cuda/tiles/row_quads.cuh"

namespace fairdraw::cuda {

/// The row's tokens, tiles shared by the warps: consecutive ones.
template <DType kType>
struct RowSource {
  static constexpr int kIdsAtOnce = kWarp * kQuad;  ///< that a warp reads

  const RowQuads<kType>& row;
  const RowIndex& index;

  struct Share {
    int begin, end;
  };
  __device__ Share share_of_warp() const {
    const int share = (index.tiles + kEndWarps - 1) / kEndWarps;
    const int begin = min(index.tiles, warp_of_thread() * share);
    return {begin, min(index.tiles, begin + share)};
  }

  template <class Visit>
  __device__ void for_each(std::int32_t lowest, const Visit& visit) const {
    for_each_of(share_of_warp(), lowest, visit);
  }
  template <class Visit>
  __device__ void for_each_of(const Share& share, std::int32_t lowest, const Visit& visit) const {
    const float from = from_order_key(lowest);
#pragma unroll 1
    for (int tile = share.begin; tile < share.end; ++tile) {
      const std::int32_t tile_key = index.keys[tile];
      if (tile_key < lowest) continue;
      float x[2][kQuad];
#pragma unroll
      for (int half = 0; half < 2; ++half) row.load_any(id_of(tile, half), x[half]);
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < kQuad; ++i) {
          const float value = half == 0 ? x[0][i] : x[1][i];
          if (value >= from) visit(order_key(value), id_of(tile, half) + i, tile_key);
        }
      }
    }
  }
  __device__ static int id_of(int tile, int half) {
    return tile * kTileSize + half * kIdsAtOnce + lane_of_thread() * kQuad;
  }
};

/// The token of a tile at a position among what is kept of it, on the lane that has it; -1 on
/// others.
template <DType kType, bool kFromProbs>
__device__ int token_in_tile(const RowSource<kType>& source, const RowWeigher<kFromProbs>& weigh,
                             int tile, uint128_t position, const RowCut& cut) {
  uint128_t before = 0;
  int token = -1;
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    const int id = source.id_of(tile, half);
    float x[kQuad];
    source.row.load_any(id, x);
    uint128_t weight[kQuad];
    uint128_t sum = 0;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const bool kept = x[i] >= from_order_key(cut.low) && cut.keeps(order_key(x[i]), id + i);
      weight[i] = kept ? weigh(x[i], source.index.keys[tile]) : uint128_t{0};
      sum += weight[i];
    }
    const uint128_t inclusive = before + called_inclusive_sum(sum);
    uint128_t upto = inclusive - sum;
    const bool has = position >= upto;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      upto += weight[i];
      if (token < 0 && has && position < upto) token = id + i;
    }
    before = value_of_lane(inclusive, kWarp - 1);
  }
  return token;
}

/// The weight of what reaches `lowest`, to row.filters.row_mass: one reading of the row.
template <DType kType, bool kFromProbs>
__device__ __noinline__ void weigh_whole_row(const RowsTask& task, RowEnd& row,
                                             std::int32_t lowest) {
  sync_end();  // what the first thread has written
  const RowQuads<kType> quads(task.rows, task.allowed, row.number);
  const RowSource<kType> source{quads, row.index};
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  uint128_t mine = 0;
  source.for_each(lowest, [&](std::int32_t key, int, std::int32_t tile_key) {
    mine += weigh(from_order_key(key), tile_key);
  });
  const uint128_t mass = BlockMasses(row.masses).sum(mine);
  if (threadIdx.x == 0) row.filters.row_mass = mass;
  sync_end();
}

/// lowest: no survivor lies below it.
template <DType kType, bool kFromProbs>
__device__ __noinline__ void end_whole_row(const RowsTask& task, RowEnd& row,
                                           std::int32_t lowest) {
  sync_end();  // what the first thread has written; bins of a search before
  const RowFilters filters = row.filters;
  const RowQuads<kType> quads(task.rows, task.allowed, row.number);
  const RowSource<kType> source{quads, row.index};
  KeySelection selection(row.selection);
  selection.clear();
  sync_end();
  BlockMasses masses(row.masses);
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  CutSearch<kFromProbs> search{selection, masses, weigh, filters, row.keys.largest};
  RowCut cut{lowest, filters.vocab};
  if (filters.top_k_on()) cut = search.top_k(source, lowest);
  if (filters.top_p_on()) {
    cut = search.top_p(source, cut, masses.sum(search.kept_of_thread(source, cut)));
  }
  const auto kept_of_warp = [&](const typename RowSource<kType>::Share& share) {
    uint128_t mine = 0;
    source.for_each_of(share, cut.low, [&](std::int32_t key, int id, std::int32_t tile_key) {
      if (cut.keeps(key, id)) mine += weigh(from_order_key(key), tile_key);
    });
    return value_of_lane(called_inclusive_sum(mine), kWarp - 1);
  };
  const auto share = source.share_of_warp();
  const uint128_t of_warp = kept_of_warp(share);
  const auto prefix = masses.prefix(lane_of_thread() == 0 ? of_warp : uint128_t{0});
  const uint128_t position = multiply_high(filters.word, prefix.total);
  uint128_t before = value_of_lane(prefix.before, 0);
  if (position < before || position >= before + of_warp) return;
  for (int tile = share.begin; tile < share.end; ++tile) {
    const uint128_t sum = kept_of_warp({tile, tile + 1});
    if (position < before + sum) {
      const int token = token_in_tile(source, weigh, tile, position - before, cut);
      if (token >= 0) write_drawn(task, row.number, token, row.keys.largest, cut, prefix.total);
      return;
    }
    before += sum;
  }
}

}  // namespace fairdraw::cuda
