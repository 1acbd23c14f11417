// Passes of all blocks of a row over the row's tiles, for rows whose threshold is searched
// (threshold_search.cuh). One kind of pass sums the tokens above a bracket of values by tile and
// lists the tokens in the bracket; another kind divides the tokens of a bracket into bins.
//
// Contract. The row's index is in the shared memory of the first block, and each block has the keys
// of its own tiles. The first block gives every block the same order for the pass (PassOrder), and
// all warps of all blocks take part. Postcondition of a pass that lists: the sum of each tile in
// the index is the sum of its tokens above the bracket, the number of those tokens is known, and
// the first block has an unordered list of the tokens in the bracket. If there are more tokens in
// the bracket than fit into the list, they are counted, but none is written beyond the list's end.
// Postcondition of a pass with bins: each block has the units of its own tokens in each bin.
//
// Algorithm and cost. A warp reads only the tiles whose largest value reaches the bracket. Two
// tiles at a time are read into registers, because the threads that finish the row now use the
// memory of the first pass's ring buffer. The tiles are read from the L2 cache, into which they are
// prefetched some tiles ahead if they are not there yet. Each tile reserves its entries of the list
// by one atomic addition in the block's own shared memory. If all 500 tiles of a row added to one
// word in the first block, the additions would have to wait for each other. After a barrier of its
// warps, each block reserves a range of the first block's list once, and copies its entries into
// this range. A token takes about 10 instructions and one atomic addition to enter a bin.
//
// Numerics: the weights are defined in common/tile_weights.h; the units of bins are rounded, and
// must not decide a result. Determinism: the sums, counts and units are integers. Code that reads
// the list must not depend on the order of its entries.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/tiles/candidate_list.cuh"
#include "cuda/tiles/row_cut.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

/// Work that the blocks of a row do in their next pass.
enum class PassKind : std::int32_t {
  row_has_ended,     ///< there is no more work, because the row is finished
  sum_and_list,      ///< sum the tokens above the bracket, and list the tokens in the bracket
  fill_bins,         ///< divide the tokens in the bracket into bins
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

/// Counters for the list of a bracket, in the shared memory of each block of the row. The list
/// itself is a CandidateList whose entries have no order.
struct BracketSize {
  unsigned above;  ///< number of tokens above the bracket
  unsigned size;   ///< number of tokens in the bracket, which may exceed the list's capacity
  unsigned first;  ///< position of the block's first entry in the row's list
};

/// Rule that divides the tokens of a bracket into bins by their distance below a key of the
/// bracket. All blocks of the row read this rule.
struct BinRule {
  static constexpr int kBins = CandidateList::kBins;

  std::int32_t high_key;  ///< key from which bins are counted; values of at least this key are in
                          ///< bin 0
  float high;             ///< value of this key
  bool by_key;            ///< whether distances are differences of keys, and not of values
  float of_distance;      ///< number of bins per unit of distance
  bool counts;            ///< whether tokens are counted, one unit per token
  float units_log2;       ///< base-2 logarithm of the units of the row's largest logit, or of
                          ///< probability 1
  float largest;          ///< the row's largest value

  /// Returns the distance of a value below `high`, or 0 if the value is larger. kByKey is equal to
  /// `by_key`. Loops test `by_key` outside, because both distances together would cost 8
  /// instructions more per value.
  template <bool kByKey>
  __device__ __forceinline__ float distance_by(float x) const {
    x = fminf(x, high);  // both zeros have the same key, so that either may be returned
    if constexpr (!kByKey) return high - x;
    return static_cast<float>(static_cast<std::uint32_t>(high_key) -
                              static_cast<std::uint32_t>(order_key(x)));
  }
  __device__ float distance(float x) const {
    return by_key ? distance_by<true>(x) : distance_by<false>(x);
  }
  /// Returns the bin of a value. The bin of a larger value is not larger. The last bin also has all
  /// values that are farther away than the other bins reach.
  template <bool kByKey>
  __device__ __forceinline__ int bin_by(float x) const {
    const float distance = distance_by<kByKey>(x);
    return static_cast<int>(fminf(distance * of_distance, static_cast<float>(kBins - 1)));
  }
  __device__ int bin_of(float x) const { return by_key ? bin_by<true>(x) : bin_by<false>(x); }
  /// Returns the units of a token with a given value, rounded.
  template <bool kFromProbs>
  __device__ __forceinline__ unsigned units_of(float x, float scale) const {
    if (counts) return 1;
    const float octaves = kFromProbs ? log2f(x) : (x - largest) * scale;
    return __float2uint_rn(exp2f(octaves + units_log2));
  }
  /// Returns the smallest key in an interval whose bin is at most `bin`, by bisection.
  /// Precondition: the bin of interval.high is at most `bin`.
  __device__ std::int32_t first_key_of(int bin, KeyInterval interval) const {
#pragma unroll 1
    while (interval.low < interval.high) {
      const std::int32_t middle = interval.lower_middle();
      if (bin_of(from_order_key(middle)) <= bin) {
        interval.high = middle;
      } else {
        interval.low = middle + 1;
      }
    }
    return interval.low;
  }
};

/// Part of a pass that a single block does, with all its threads.
template <RowForm kForm, bool kFromProbs>
class ThresholdPass {
  using Row = RowOfTiles<kForm>;
  using Pass = TilePass<kForm, kFromProbs>;
  static constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;
  static constexpr auto kCapacity = static_cast<unsigned>(CandidateList::kMax);

 public:
  /// `size`, `list` and `rule` are in the shared memory of this block. The rule is read in the
  /// first block.
  __device__ __forceinline__ ThresholdPass(const Row& row, const RowBlocks& blocks,
                                           const PassOrder& order, BracketSize& size,
                                           CandidateList& list, const BinRule& rule, float scale)
      : row_(row),
        blocks_(blocks),
        order_(order),
        size_(size),
        list_(list),
        weighing_{scale, true},
        low_(from_order_key(order.low)),
        high_(from_order_key(order.high)),
        floor_(from_order_key(order.floor.low)) {
    if (order.kind == PassKind::fill_bins) bins_ = *blocks.cluster().at(&rule, 0);
  }

  __device__ __forceinline__ void run() {
    if (order_.kind == PassKind::fill_bins) {
      for (int bin = static_cast<int>(threadIdx.x); bin < BinRule::kBins;
           bin += static_cast<int>(blockDim.x)) {
        list_.bins[bin] = 0;
      }
      sync_block();
      visit();
      return;
    }
    if (!blocks_.is_first()) {
      if (threadIdx.x == 0) size_ = {0, 0, 0};
      sync_block();
    }
    visit();
    const unsigned above = __reduce_add_sync(kAllLanes, above_);
    if (lane_of_thread() == 0 && above != 0) atomicAdd(&size_.above, above);
    if (!blocks_.is_first()) hand_on();
  }

 private:
  /// Number of steps by which tiles are prefetched ahead, enough for a tile to arrive in time.
  static constexpr int kAhead = 4;

  /// Appends this block's list to the row's list in the first block. All threads of the block must
  /// call this function.
  __device__ __forceinline__ void hand_on() const {
    sync_block();
    const unsigned size = size_.size;
    if (threadIdx.x == 0) {
      BracketSize& of_row = *blocks_.cluster().at(&size_, 0);
      if (size_.above != 0) atomicAdd(&of_row.above, size_.above);
      if (size != 0) size_.first = atomicAdd(&of_row.size, size);
    }
    if (size == 0) return;
    sync_block();
    const unsigned first = size_.first;
    CandidateList& of_row = *blocks_.cluster().at(&list_, 0);
    for (unsigned i = threadIdx.x; i < min(size, kCapacity) && first + i < kCapacity;
         i += blockDim.x) {
      of_row.key[first + i] = list_.key[i];
      of_row.id[first + i] = list_.id[i];
    }
  }

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
        } else if (tile < steps.end && order_.kind != PassKind::fill_bins) {
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
    if (order_.kind == PassKind::fill_bins) {
      fill(x, inside, blocks_.kept_key(tile));
      return;
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
    blocks_.send_sum(tile, Pass::sum(x, blocks_.kept_key(tile), weighing_));
  }

  /// Adds the units of a lane's tokens to the bins. If all values of a tile are equal, one lane
  /// adds them together, because many additions to one word would wait for each other.
  __device__ __forceinline__ void fill(const float (&x)[kLaneValues], unsigned inside,
                                       std::int32_t key) {
    const float largest = from_order_key(key);
    bool equal = true;
#pragma unroll
    for (const float value : x) equal = equal && value == largest;
    if (!__any_sync(kAllLanes, !equal)) {
      if (lane_of_thread() == 0 && inside != 0) {
        atomicAdd(&list_.bins[bins_.bin_of(largest)],
                  kTileSize * bins_.template units_of<kFromProbs>(largest, weighing_.scale));
      }
      return;
    }
    if (!kFromProbs && !bins_.by_key) {
      add_to_bins<false>(x, inside);
    } else {
      add_to_bins<true>(x, inside);
    }
  }

  template <bool kByKey>
  __device__ __forceinline__ void add_to_bins(const float (&x)[kLaneValues],
                                              unsigned inside) const {
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if (((inside >> i) & 1U) == 0) continue;
      atomicAdd(&list_.bins[bins_.template bin_by<kByKey>(x[i])],
                bins_.template units_of<kFromProbs>(x[i], weighing_.scale));
    }
  }

  __device__ __forceinline__ void append(int tile, const float (&x)[kLaneValues],
                                         unsigned inside) const {
    const auto count = static_cast<unsigned>(__popc(inside));
    const unsigned inclusive = warp_inclusive_sum(count);
    unsigned place = 0;
    if (lane_of_thread() == kWarp - 1) place = atomicAdd(&size_.size, inclusive);
    place = __shfl_sync(kAllLanes, place, kWarp - 1) + inclusive - count;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if (((inside >> i) & 1U) == 0) continue;
      if (place < kCapacity) {
        list_.key[place] = order_key(x[i]);
        list_.id[place] = Row::id_of(tile, i);
      }
      ++place;
    }
  }

  const Row& row_;
  const RowBlocks& blocks_;
  const PassOrder& order_;
  BracketSize& size_;
  CandidateList& list_;
  BinRule bins_{};
  TileWeighing weighing_;
  float low_, high_, floor_;
  unsigned above_ = 0;
};

}  // namespace fairdraw::cuda
