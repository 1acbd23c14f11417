// A second pass of all blocks of a row over its tiles: sums the tokens above a bracket of values by
// tile, and lists the tokens in the bracket.
//
// Contract. The row's index is in the first block's shared memory, and each block has the keys of
// its own tiles. The first block gives the same order (PassOrder) to every block, and all warps of
// all blocks take part. Postcondition: the sum of each tile in the index is the sum of its tokens
// above the bracket, the number of those tokens is known, and the first block has an unordered list
// of the tokens in the bracket. If the list overflows, its tokens are counted, but not written
// beyond the list's end.
//
// Algorithm and cost. A warp reads those of its tiles whose largest value reaches the bracket, two
// at a time, into registers, because the ring buffer of the first pass is now the memory of the
// threads that finish the row. The tiles are read from L2, or prefetched into L2 some tiles ahead.
// Each tile reserves its list entries by one atomic addition in the block's own shared memory;
// atomic additions to one word in the first block would serialise the 500 tiles of a row. After a
// barrier of the block's warps, the block reserves its range in the first block's list once and
// copies its entries there.
//
// Numerics: common/tile_weights.h. Determinism: sums and counts are integers. Readers of the list
// must not depend on its order.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/tiles/row_cut.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

/// Work that the blocks of a row do next.
enum class PassKind : std::int32_t {
  row_has_ended,  ///< no more work, because the row is finished
  sum_and_list,   ///< sums tokens above the bracket and lists the tokens in it
  sample,         ///< counts the sample for a guess (bracket_guess.cuh)
  mass_above,  ///< sums the mass above the pivots of a row that draws by proposals (mass_above.cuh)
  count_in_bracket,  ///< counts the tokens in the bracket per tile, in place of the sums; lists
                     ///< nothing
};

/// Order of a pass. Each block of the row has a copy of the order in shared memory.
struct PassOrder {
  PassKind kind;
  RowCut floor;            ///< tokens that this cut drops take no part in the pass
  std::int32_t low, high;  ///< keys of the bracket, not below the floor's key; empty if low > high

  /// Returns the smallest key that takes part in the pass.
  __device__ std::int32_t lowest() const { return low <= high ? low : high + 1; }
};

/// Counters of a bracket's list, in shared memory of each block of the row.
struct BracketList {
  struct alignas(8) Entry {
    std::int32_t key;
    std::int32_t id;
  };

  unsigned above;  ///< number of tokens above the bracket
  unsigned size;   ///< number of tokens in the bracket; may exceed the list's capacity
  unsigned first;  ///< index in the row's list of the block's first entry
};

/// Reads a tile's values and allowed bits into registers.
template <RowForm kForm>
__device__ __forceinline__ void load_again(const TileRow<kForm>& row, int tile, RawTile& raw) {
  using Row = TileRow<kForm>;
  if constexpr (kForm.access == TileAccess::values) {
    row.load(tile, raw);
  } else {
    raw.tile = tile;
#pragma unroll
    for (int v = 0; v < Row::kVectors; ++v) {
      uint4 vector = row.empty_vector();
      if (row.has_vector(tile, v)) vector = __ldg(row.vector_at(tile, v));
      Row::set_vector(raw, v, vector);
    }
  }
  row.load_bits(tile, raw);
}

/// Part of a bracket pass that one warp does.
template <RowForm kForm, bool kFromProbs>
class BracketPass {
  using Row = TileRow<kForm>;
  using Pass = TilePass<kForm, kFromProbs>;
  static constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;

 public:
  /// `list` and `entries` are in this block's shared memory.
  __device__ __forceinline__ BracketPass(const Row& row, const RowBlocks& blocks,
                                         const PassOrder& order, BracketList& list,
                                         BracketList::Entry* entries, unsigned capacity,
                                         float scale)
      : row_(row),
        blocks_(blocks),
        order_(order),
        list_(list),
        entries_(entries),
        capacity_(capacity),
        rule_{scale, true},
        low_(from_order_key(order.low)),
        high_(from_order_key(order.high)),
        floor_(from_order_key(order.floor.low)) {}

  __device__ __forceinline__ void run() {
    if (!blocks_.is_first()) {
      if (threadIdx.x == 0) list_ = {0, 0, 0};
      sync_block();
    }
    visit();
    const unsigned above = __reduce_add_sync(kAllLanes, above_);
    if (lane() == 0 && above != 0) atomicAdd(&list_.above, above);
    if (!blocks_.is_first()) hand_on();
  }

 private:
  /// Prefetch distance in steps, long enough for a tile to arrive in time.
  static constexpr int kAhead = 4;

  /// Appends the block's list to the row's list in the first block. Called by all threads of the
  /// block.
  __device__ __forceinline__ void hand_on() const {
    sync_block();
    const unsigned size = list_.size;
    if (threadIdx.x == 0) {
      BracketList& of_row = *blocks_.cluster().at(&list_, 0);
      if (list_.above != 0) atomicAdd(&of_row.above, list_.above);
      if (size != 0) list_.first = atomicAdd(&of_row.size, size);
    }
    if (size == 0) return;
    sync_block();
    const unsigned first = list_.first;
    BracketList::Entry* of_row = blocks_.cluster().at(entries_, 0);
    for (unsigned i = threadIdx.x; i < min(size, capacity_) && first + i < capacity_;
         i += blockDim.x) {
      of_row[first + i] = entries_[i];
    }
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  __device__ __forceinline__ void visit() {
    constexpr int kInFlight = 2;
    const TileSteps steps = blocks_.steps();
    const std::int32_t lowest = order_.lowest();
#pragma unroll 1
    for (int first = steps.first; first < steps.end; first += kInFlight * steps.step) {
      RawTile raw[kInFlight];
      bool reads[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int tile = first + i * steps.step;
        reads[i] = tile < steps.end && blocks_.kept_key(tile) >= lowest;
        if (reads[i]) load_again(row_, tile, raw[i]);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int tile = first + (i + kAhead) * steps.step;
        if (tile < steps.end && blocks_.kept_key(tile) >= lowest) row_.prefetch(tile);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int tile = first + i * steps.step;
        if (reads[i]) {
          measure(tile, raw[i]);
        } else if (tile < steps.end) {
          blocks_.send_sum(tile, 0);
        }
      }
    }
  }

  __device__ __forceinline__ void measure(int tile, const RawTile& raw) {
    float x[kLaneValues];
    Pass::read(row_, raw, x);
    if (order_.floor.tie_end < row_.vocab()) {
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        const int id = Row::id_of(tile, i);
        const bool cut = x[i] == floor_ && id >= order_.floor.tie_end;
        x[i] = cut ? kEmpty : x[i];
      }
    }
    unsigned inside = 0;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      inside |= x[i] >= low_ && x[i] <= high_ ? 1U << i : 0U;
    }
    if (order_.kind == PassKind::count_in_bracket) {
      const int count = __popc(inside);
      blocks_.send_sum(tile, __reduce_add_sync(kAllLanes, static_cast<unsigned>(count)));
      return;
    }
    if (__any_sync(kAllLanes, inside != 0)) append(tile, x, inside);
#pragma unroll
    for (float& value : x) {
      above_ += value > high_ ? 1 : 0;
      value = value > high_ ? value : kEmpty;
    }
    blocks_.send_sum(tile, Pass::sum(x, blocks_.kept_key(tile), rule_));
  }

  __device__ __forceinline__ void append(int tile, const float (&x)[kLaneValues],
                                         unsigned inside) const {
    const auto count = static_cast<unsigned>(__popc(inside));
    const unsigned inclusive = warp_inclusive_sum(count);
    unsigned place = 0;
    if (lane() == kWarp - 1) place = atomicAdd(&list_.size, inclusive);
    place = __shfl_sync(kAllLanes, place, kWarp - 1) + inclusive - count;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if (((inside >> i) & 1U) == 0) continue;
      const int id = Row::id_of(tile, i);
      if (place < capacity_) entries_[place] = {order_key(x[i]), id};
      ++place;
    }
  }

  const Row& row_;
  const RowBlocks& blocks_;
  const PassOrder& order_;
  BracketList& list_;
  BracketList::Entry* entries_;
  unsigned capacity_;
  TileRule rule_;
  float low_, high_, floor_;
  unsigned above_ = 0;
};

}  // namespace fairdraw::cuda
