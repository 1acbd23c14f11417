// Second pass of all blocks of a row over the row's tiles, which sums the tokens above a bracket of
// values by tile and lists the tokens in the bracket.
//
// Contract. The row's index is in the shared memory of the first block, and each block has the keys
// of its own tiles. The first block gives every block the same order for the pass (PassOrder), and
// all warps of all blocks take part. Postcondition: the sum of each tile in the index is the sum of
// its tokens above the bracket, the number of those tokens is known, and the first block has an
// unordered list of the tokens in the bracket. If there are more tokens in the bracket than fit
// into the list, they are counted, but none is written beyond the list's end.
//
// Algorithm and cost. A warp reads only the tiles whose largest value reaches the bracket. Two
// tiles at a time are read into registers, because the threads that finish the row now use the
// memory of the first pass's ring buffer. The tiles are read from the L2 cache, into which they are
// prefetched some tiles ahead if they are not there yet. Each tile reserves its entries of the list
// by one atomic addition in the block's own shared memory. If all 500 tiles of a row added to one
// word in the first block, the additions would have to wait for each other. After a barrier of its
// warps, each block reserves a range of the first block's list once, and copies its entries into
// this range.
//
// Numerics: the weights are defined in common/tile_weights.h. Determinism: the sums and counts are
// integers. Code that reads the list must not depend on the order of its entries.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/tiles/row_cut.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

/// Work that the blocks of a row do in their next pass.
enum class PassKind : std::int32_t {
  row_has_ended,     ///< there is no more work, because the row is finished
  sum_and_list,      ///< sum the tokens above the bracket, and list the tokens in the bracket
  sample,            ///< count the sample for a guess of a bracket (bracket_guess.cuh)
  mass_above,        ///< sum the mass above a few values (pivots) of a row that draws by proposals
                     ///< (mass_above.cuh)
  count_in_bracket,  ///< count the tokens in the bracket by tile, store the counts in place of the
                     ///< sums, and list nothing
};

/// Order of a pass. Each block of the row has a copy of the order in shared memory.
struct PassOrder {
  PassKind kind;
  RowCut floor;            ///< tokens that this cut drops are ignored in the pass
  std::int32_t low, high;  ///< smallest and largest key of the bracket, both at least the floor's
                           ///< key; the bracket is empty if low > high

  /// Returns the smallest key that the pass includes.
  __device__ std::int32_t lowest() const { return low <= high ? low : high + 1; }
};

/// Counters for the list of a bracket, in the shared memory of each block of the row.
struct BracketList {
  struct alignas(8) Entry {
    std::int32_t key;
    std::int32_t id;
  };

  unsigned above;  ///< number of tokens above the bracket
  unsigned size;   ///< number of tokens in the bracket, which may exceed the list's capacity
  unsigned first;  ///< position of the block's first entry in the row's list
};

/// Reads a tile's values and allowed bits into registers.
template <RowForm kForm>
__device__ __forceinline__ void load_again(const RowOfTiles<kForm>& row, int tile, RawTile& raw) {
  using Row = RowOfTiles<kForm>;
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

/// Part of a bracket pass that a single warp does.
template <RowForm kForm, bool kFromProbs>
class BracketPass {
  using Row = RowOfTiles<kForm>;
  using Pass = TilePass<kForm, kFromProbs>;
  static constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;

 public:
  /// `list` and `entries` are in the shared memory of this block.
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
  /// Number of steps by which tiles are prefetched ahead, enough for a tile to arrive in time.
  static constexpr int kAhead = 4;

  /// Appends this block's list to the row's list in the first block. All threads of the block must
  /// call this function.
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
  TileWeighing rule_;
  float low_, high_, floor_;
  unsigned above_ = 0;
};

}  // namespace fairdraw::cuda
