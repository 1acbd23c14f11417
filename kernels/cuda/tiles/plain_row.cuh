// Finishes a row without top_k and top_p after the first pass: a greedy row, a row with min_p, or
// an unfiltered row.
//
// Contract. The first block of the row has the row's index, which includes the tiles' sums if the
// row is unfiltered. The blocks that take part know the largest value of each warp: the first block
// alone or, with min_p, all blocks, whose warps also have the keys of their own tiles.
//
// Algorithm and cost. Without min_p, the first block works alone: it draws from the sums and reads
// one tile (tile_draw.cuh), or, in a greedy row, reads the first tile with the largest value. With
// min_p, each warp reads its tiles that reach the threshold again, and takes the last of these
// tiles from its ring buffer. The warp sends the sums of the survivors to the first block, which
// then draws. The code after a pass is short, because its instructions must first be loaded from
// memory.
//
// Numerics: the threshold of min_p is computed by the rule of common/min_p.h.
#pragma once

#include <cstdint>

#include "common/min_p.h"
#include "cuda/tiles/min_p_key.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/tile_draw.cuh"

namespace fairdraw::cuda {

/// Returns min_p, which must be above 0, in the form that min_p_rule needs. For logits this is
/// log2(min_p), which takes long to compute and does not depend on the row's largest value, so the
/// first pass hides its time.
template <bool kFromProbs>
__device__ __forceinline__ float min_p_asked(float min_p) {
  return kFromProbs ? min_p : called_min_p_octaves(min_p);
}

/// Returns the rule by which min_p keeps values; `asked` is the result of min_p_asked().
template <bool kFromProbs>
__device__ __forceinline__ MinPRule min_p_rule(float asked, float max, float scale) {
  if constexpr (!kFromProbs) return {max, scale, asked};
  // The threshold is the smallest float that is not below min_p * max; the product of two
  // significands of 24 bits is exact as a double.
  const double exact = static_cast<double>(asked) * static_cast<double>(max);
  const auto nearest = static_cast<float>(exact);
  return {0.0F, 1.0F, static_cast<double>(nearest) < exact ? next_above(nearest) : nearest};
}

/// Part of a row without top_k and top_p that one block finishes.
template <RowForm kForm, bool kFromProbs>
class PlainRow {
  using Row = RowOfTiles<kForm>;
  using Pass = TilePass<kForm, kFromProbs>;

 public:
  /// `largest` is the largest key of the row.
  __device__ __forceinline__ PlainRow(const RowsTask& task, std::int64_t number, const Row& row,
                                      const RowBlocks& blocks, const TileWeighing& rule,
                                      const MinPRule& keep, std::int32_t largest)
      : task_(task),
        number_(number),
        row_(row),
        blocks_(blocks),
        rule_(rule),
        keep_(keep),
        largest_(largest) {}

  /// For each tile of this warp, sums the tokens that min_p keeps. Precondition: the sums of the
  /// tiles are 0.
  __device__ __forceinline__ void filter(const TileRing<kForm>& ring) const {
    constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;
    const auto reaches = [&](int tile) {
      return keep_.keeps(from_order_key(blocks_.kept_key(tile)));
    };
    __syncwarp();  // wait until lane 0 has written the keys
    revisit_tiles(row_, ring, blocks_.steps(), true, reaches, [&](int tile, const RawTile& raw) {
      float x[kLaneValues];
      Pass::read(row_, raw, x);
#pragma unroll
      for (float& value : x) value = keep_.keeps(value) ? value : kEmpty;
      blocks_.send_sum(tile, Pass::sum(x, blocks_.kept_key(tile), rule_));
    });
  }

  /// Finishes a greedy row in the first block.
  __device__ __forceinline__ void end_greedy() const {
    if (warp_of_thread() != 0) return;
    const std::int32_t token = indexed().first_largest();
    if (threadIdx.x == 0) write_greedy(RowOutputs::of(task_, number_), token, largest_);
  }

  /// Draws a token with a random word. All threads of the first block must call this function after
  /// the sums have arrived.
  __device__ __forceinline__ void draw(BlockScratch<uint128_t>& scratch, std::uint64_t word,
                                       float min_p) const {
    const DrawnToken drawn = indexed().draw_by_block(scratch, word);
    if (drawn.token < 0 || lane_of_thread() != 0) return;
    RowCut cut{kFromProbs ? 1 : kEmptyTileKey + 1, row_.vocab()};
    if (min_p > 0.0F && task_.records != nullptr) {
      cut.low = smallest_key_kept<kFromProbs>(min_p, rule_.scale, cut.low, largest_);
    }
    write_drawn(RowOutputs::of(task_, number_), RowEndKind::index, drawn.token, largest_, cut,
                drawn.total);
  }

 private:
  __device__ __forceinline__ IndexedRow<Row, kFromProbs, MinPRule> indexed() const {
    return {row_, blocks_.index(), rule_, keep_, largest_};
  }

  const RowsTask& task_;
  std::int64_t number_;
  const Row& row_;
  const RowBlocks& blocks_;
  TileWeighing rule_;
  MinPRule keep_;
  std::int32_t largest_;
};

}  // namespace fairdraw::cuda
