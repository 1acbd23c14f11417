// The threshold of a row that no list of candidates holds: brackets, each measured by all blocks.
//
// Contract. Among the tokens that a floor keeps, the largest value such that those that reach it
// weigh at least a target, or are at least so many; all that the floor keeps reach the target. What
// it returns is that cut, and the row's index then has the sums of what the cut keeps.
//
// Algorithm and cost. A bracket is guessed (bracket_guess.cuh) and measured by a pass of all blocks
// (bracket_pass.cuh): the exact mass above it by tile, and its values in a list. If the threshold is
// among these, it is found in the list; the list's survivors are added to the sums of their tiles,
// and no other pass is needed. Else what was measured narrows the range of keys that is still open:
// a missed guess is made wider, a list that is too long is cut at one of its own keys, and after
// some such pivots the range is halved. So at most about 50 passes, whatever the values; one as a
// rule. Where the range is one key, however many tokens are tied, counts and sums end the search.
//
// In the list: a histogram of 256 bins, each bin's mass estimated by its middle, says in which bins
// the threshold is. What is above them is added to the tiles exactly and compared with the target;
// at most 256 values are then ranked exactly. A wrong estimate shows in the sums, and narrows the
// open range, too.
//
// Determinism: integers decide; neither the order of a list nor a guess shows.
#pragma once

#include <cstdint>

#include "cuda/tiles/bracket_guess.cuh"
#include "cuda/tiles/row_end.cuh"

namespace fairdraw::cuda {

/// A list in no order, spread over the threads.
struct ListedBracket {
  const RowEnd& row;
  int size;

  template <class Visit>
  __device__ __forceinline__ void for_each(std::int32_t lowest, const Visit& visit) const {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < size; i += kEndThreads) {
      const BracketList::Entry entry = row.bracket_entries()[i];
      if (entry.key >= lowest) visit(entry.key, entry.id, row.index.keys[entry.id / kTileSize]);
    }
  }
};

/// For the threads of the row's end. Blocks::pass(order) makes all blocks of the row do a pass.
template <DType kType, bool kFromProbs, class Blocks>
class BracketSearch {
 public:
  __device__ BracketSearch(RowEnd& row, const TileRow<kType>& values, const Blocks& blocks)
      : row_(row),
        values_(values),
        blocks_(blocks),
        masses_(row.masses),
        weigh_(row.rule, row.keys.largest) {}

  /// Sums of what a floor keeps, by tile; the mass of all.
  __device__ uint128_t sum_kept(const RowCut& floor) {
    blocks_.pass({PassKind::sum_and_list, floor, floor.low, floor.low - 1});
    return mass_of_sums();
  }

  /// The mass of the sums in the index.
  __device__ __noinline__ uint128_t mass_of_sums() {
    uint128_t mine = 0;
    for (int tile = static_cast<int>(threadIdx.x); tile < row_.index.tiles; tile += kEndThreads) {
      const std::uint64_t sum = row_.index.sums[tile];
      if (sum != 0) mine += row_weight(sum, weigh_.shift_of(row_.index.keys[tile]));
    }
    return masses_.sum(mine);
  }

  /// k tokens; ties of the k-th by the row's rule. Fewer than k: all of them.
  __device__ RowCut top_k(const RowCut& floor, int k) {
    by_count_ = true;
    target_ = static_cast<unsigned>(k);
    return find(floor, 0);
  }

  /// A nucleus of so much mass. mass: of the sums in the index, of all that the floor keeps.
  __device__ RowCut top_p(const RowCut& floor, uint128_t target, uint128_t mass) {
    by_count_ = false;
    target_ = target;
    return find(floor, mass);
  }

 private:
  static constexpr int kGuesses = 3;
  static constexpr int kPivots = 16;
  static constexpr float kDeviations = 4.0F;  ///< a miss in some 16000 rows
  static constexpr float kWiden = 4.0F;

  /// Where a search in a list has ended.
  struct Found {
    bool done;
    RowCut cut;
  };

  __device__ __noinline__ RowCut find(RowCut floor, uint128_t mass) {
    floor_ = floor;
    low_ = floor.low;
    high_ = row_.keys.largest;
    most_inside_ = static_cast<unsigned>(values_.vocab());
    above_high_ = 0;
    const bool guesses = most_inside_ > row_.bracket_capacity;
    BracketGuess<kType, kFromProbs> guess(row_.guess, values_, row_.index, row_.rule, weigh_,
                                          high_, low_);
    if (guesses) guess.sample(mass, masses_);
    const double target = nearest_double(target_);
    float deviations = kDeviations;
    bool overflow = false;
#pragma unroll 1
    for (int round = 0; low_ < high_; ++round) {
      KeyInterval bracket{low_, high_};
      if (most_inside_ - above_high_ > row_.bracket_capacity) {
        if (round < kGuesses && !overflow) {
          bracket = guess.bracket(target, deviations);
          bracket = {min(max(bracket.low, low_), high_), max(min(bracket.high, high_), low_)};
          deviations *= kWiden;
        } else {
          const std::int32_t key = pivot(round < kGuesses + kPivots);
          bracket = {key, key - 1};
        }
      }
      blocks_.pass({PassKind::sum_and_list, floor_, bracket.low, bracket.high});
      const unsigned above = row_.list_size.above;
      const unsigned size = row_.list_size.size;
      sync_end();
      const uint128_t reached = by_count_ ? uint128_t{above} : mass_of_sums();
      if (reached >= target_) {
        low_ = bracket.high + 1;
        most_inside_ = above;
        continue;
      }
      high_ = bracket.high < bracket.low ? high_ : bracket.high;
      if (size > row_.bracket_capacity) {
        overflow = true;
        above_high_ = above;
        continue;
      }
      if (size > 0) {
        const Found found = by_count_ ? count_in_list(bracket, size, above)
                                      : weigh_in_list(bracket, size, reached);
        if (found.done) return found.cut;
      } else {
        high_ = bracket.low - 1;
        above_high_ = above;
      }
    }
    return end_at_one_key();
  }

  /// A key in (low_, high_]: by preference of a value that was listed.
  __device__ std::int32_t pivot(bool of_list) {
    const std::uint32_t half = (static_cast<std::uint32_t>(high_) -
                                static_cast<std::uint32_t>(low_) + 1U) / 2U;
    auto middle = static_cast<std::int32_t>(static_cast<std::uint32_t>(low_) + half);
    if (!of_list) return middle;
    std::int32_t mine = INT_MIN;
    const auto listed = static_cast<int>(row_.bracket_capacity);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < listed && mine == INT_MIN; i += kEndThreads) {
      const std::int32_t key = row_.bracket_entries()[i].key;
      if (key >= low_ && key <= high_) mine = key;
    }
    const unsigned has = __ballot_sync(kAllLanes, mine != INT_MIN);
    if (lane_of_thread() == 0) row_.low_of_warp[warp_of_thread()] = INT_MIN;
    __syncwarp();
    if (has != 0 && lane_of_thread() == __ffs(static_cast<int>(has)) - 1) {
      row_.low_of_warp[warp_of_thread()] = mine;
    }
    sync_end();
    for (const std::int32_t key : row_.low_of_warp) {
      if (key != INT_MIN) middle = key > low_ ? key : low_ + 1;
    }
    sync_end();
    return middle;
  }

  /// The k-th in the list, of which `above` are above it.
  __device__ Found count_in_list(const KeyInterval& bracket, unsigned size, unsigned above) {
    if (above + size < static_cast<unsigned>(target_)) {
      high_ = bracket.low - 1;
      above_high_ = above + size;
      return {false, {}};
    }
    KeySelection selection(row_.selection);
    selection.clear();
    sync_end();
    RowFilters filters = row_.filters;
    filters.top_k = static_cast<std::int32_t>(static_cast<unsigned>(target_) - above);
    const ListedBracket listed{row_, static_cast<int>(size)};
    CutSearch<kFromProbs> search{selection, masses_, weigh_, filters, bracket.high};
    const RowCut cut = search.top_k(listed, bracket.low);
    add_to_tiles(listed, {cut.low, bracket.high}, cut);
    return {true, cut};
  }

  /// Adds what a cut keeps of the list's keys in a range to the sums of their tiles. One barrier.
  __device__ __noinline__ void add_to_tiles(ListedBracket listed, KeyInterval range, RowCut cut) {
    listed.for_each(range.low, [&](std::int32_t key, int id, std::int32_t tile_key) {
      if (range.holds(key) && cut.keeps(key, id)) add_to_tile(key, id, tile_key);
    });
    sync_end();
  }
  __device__ __forceinline__ void add_to_tile(std::int32_t key, int id,
                                              std::int32_t tile_key) const {
    const TileWeights<kFromProbs> weights(from_order_key(tile_key), row_.rule);
    const float x = from_order_key(key);
    const std::uint64_t weight = weights.are_quick() ? weights.weigh(x) : weights.weigh_slowly(x);
    atomicAdd(reinterpret_cast<unsigned long long*>(row_.sums + id / kTileSize),
              static_cast<unsigned long long>(weight));
  }

  /// The nucleus' end in the list, above which the mass is `above` < target.
  __device__ Found weigh_in_list(const KeyInterval& bracket, unsigned size, uint128_t above) {
    const ListedBracket listed{row_, static_cast<int>(size)};
    const std::int32_t key = narrow(listed, bracket, above);
    if (key != INT_MAX) return {true, cut_at(key)};
    // The estimate was wrong, or the threshold is below the list.
    const RowCut cut = bisect(listed, bracket, above);
    if (cut.tie_end >= 0) {
      sum_kept(cut);
      return {true, cut};
    }
    high_ = bracket.low - 1;
    return {false, {}};
  }

  /// The smallest key of the nucleus, whose tokens have been added to their tiles. INT_MAX where
  /// the sums contradict the estimate, or do not reach the target.
  __device__ std::int32_t narrow(const ListedBracket& listed, KeyInterval open, uint128_t above) {
    const RowCut all{open.low, values_.vocab()};
#pragma unroll 1
    while (true) {
      const OpenBins bins = bins_about(listed, open, above);
      if (bins.range.high < open.high) {
        add_to_tiles(listed, {bins.range.high + 1, open.high}, all);
        above = mass_of_sums();
        if (above >= target_) return INT_MAX;
      }
      open = bins.range;
      if (open.single()) {
        add_to_tiles(listed, open, all);
        return mass_of_sums() >= target_ ? open.low : INT_MAX;
      }
      if (bins.count <= kEndThreads) return rank(listed, open, bins.count, above);
    }
  }

  /// The cut by exact sums of the list, bit by bit of the key; tie_end -1 where the list does not
  /// reach the target.
  __device__ __noinline__ RowCut bisect(ListedBracket listed, KeyInterval bracket,
                                        uint128_t above) {
    KeySelection selection(row_.selection);
    CutSearch<kFromProbs> search{selection, masses_, weigh_, row_.filters, bracket.high};
    const RowCut all{bracket.low, values_.vocab()};
    if (above + masses_.sum(search.kept_of_thread(listed, all)) < target_) return {0, -1};
    return cut_at(search.nucleus_end(listed, bracket, above, target_));
  }

  /// What is kept from a key up: the floor's ties stay cut.
  __device__ RowCut cut_at(std::int32_t key) const {
    return key > floor_.low ? RowCut{key, values_.vocab()} : floor_;
  }

  struct OpenBins {
    KeyInterval range;
    int count;  ///< values in it
  };

  /// The bins about the threshold. Half of a level of KeySelection, with masses for counts.
  __device__ OpenBins bins_about(const ListedBracket& listed, const KeyInterval& open,
                                 uint128_t above) {
    constexpr int kBins = KeySelection::kBins;
    static_assert(kBins == kEndThreads);
    const auto thread = static_cast<int>(threadIdx.x);
    std::int32_t* counts = row_.selection.bins[0];
    counts[thread] = 0;
    sync_end();
    listed.for_each(open.low, [&](std::int32_t key, int, std::int32_t) {
      if (open.holds(key)) atomicAdd(&counts[open.bin_of(key)], 1);
    });
    sync_end();
    // Relative to the largest value's weight, from the largest bin down.
    const int bin = kBins - 1 - thread;
    const int count = counts[bin];
    float mine = 0;
    if (count > 0) {
      const KeyInterval keys = open.of_bin(bin);
      const float middle = 0.5F * from_order_key(keys.low) + 0.5F * from_order_key(keys.high);
      const float largest = from_order_key(row_.keys.largest);
      mine = static_cast<float>(count) *
             (kFromProbs ? middle / largest : exp2f((middle - largest) * row_.rule.scale));
    }
    const float inclusive = warp_inclusive_sum(mine);
    if (lane_of_thread() == kWarp - 1) row_.guess.of_warp[warp_of_thread()] = inclusive;
    if (thread == 0) row_.guess.edges[0] = kBins;  // none
    sync_end();
    float upto = inclusive;
#pragma unroll
    for (int warp = 0; warp < kEndWarps; ++warp) {
      upto += warp < warp_of_thread() ? row_.guess.of_warp[warp] : 0.0F;
    }
    const double largest = nearest_double(weigh_(from_order_key(row_.keys.largest),
                                                 row_.keys.largest));
    const auto wanted = static_cast<float>(nearest_double(target_ - above) / largest);
    if (upto >= wanted) atomicMin(&row_.guess.edges[0], thread);
    sync_end();
    const int at = kBins - 1 - min(row_.guess.edges[0], kBins - 1);
    const int last = open.bin_of(open.high);
    const int from = max(at - 1, 0);
    const int to = min(at + 1, last);
    OpenBins result{{open.of_bin(from).low, open.of_bin(to).high}, 0};
    for (int i = from; i <= to; ++i) result.count += counts[i];
    // A range of few keys is three bins of one key each: the middle one is enough then.
    if (open.shift() == 0 && result.count > kEndThreads) {
      result = {open.of_bin(at), counts[at]};
    }
    sync_end();
    return result;
  }

  /// Ranks the list's values in a range, at most kEndThreads of them, and adds what the nucleus
  /// holds of them to their tiles. Its smallest key; INT_MAX where they do not reach the target.
  __device__ std::int32_t rank(const ListedBracket& listed, const KeyInterval& open, int count,
                               uint128_t above) {
    const auto thread = static_cast<int>(threadIdx.x);
    int* size = &row_.guess.edges[0];
    if (thread == 0) *size = 0;
    sync_end();
    listed.for_each(open.low, [&](std::int32_t key, int id, std::int32_t tile_key) {
      if (!open.holds(key)) return;
      const int place = atomicAdd(size, 1);
      row_.ranked.key[place] = key;
      row_.ranked.id[place] = id;
      row_.ranked.weight[place] = weigh_(from_order_key(key), tile_key);
    });
    sync_end();
    const bool there = thread < count;
    const std::int32_t key = there ? row_.ranked.key[thread] : INT_MIN;
    uint128_t upto = above;  // what is larger weighs
#pragma unroll 4
    for (int other = 0; other < count; ++other) {
      if (row_.ranked.key[other] > key) upto += row_.ranked.weight[other];
    }
    const uint128_t all = masses_.sum(there ? row_.ranked.weight[thread] : uint128_t{0});
    if (above + all < target_) return INT_MAX;
    const bool kept = there && upto < target_;
    if (kept) {
      const int id = row_.ranked.id[thread];
      add_to_tile(key, id, row_.index.keys[id / kTileSize]);
    }
    const std::int32_t of_warp = __reduce_min_sync(kAllLanes, kept ? key : INT_MAX);
    if (lane_of_thread() == 0) row_.low_of_warp[warp_of_thread()] = of_warp;
    sync_end();
    std::int32_t low = INT_MAX;
    for (const std::int32_t other : row_.low_of_warp) low = min(low, other);
    return low;
  }

  /// The threshold is low_; its tokens may be more than any list holds.
  __device__ __noinline__ RowCut end_at_one_key() {
    RowCut cut = cut_at(low_);
    if (by_count_ && row_.filters.lowest_id) {
      blocks_.pass({PassKind::sum_and_list, floor_, low_ + 1, low_});
      const unsigned above = row_.list_size.above;
      blocks_.pass({PassKind::count_in_bracket, floor_, low_, low_});
      cut.tie_end = end_of_ties(static_cast<int>(static_cast<unsigned>(target_) - above));
    }
    sum_kept(cut);
    return cut;
  }

  /// The id after the n-th token of low_, by counts in the sums of tiles; vocab where there are no
  /// more than n.
  __device__ int end_of_ties(int n) {
    if (warp_of_thread() == 0) {
      int tile = 0;
      int before = 0;
      for (; tile < row_.index.tiles; tile += kWarp) {
        const int mine = tile + lane_of_thread();
        const auto of_tile =
            mine < row_.index.tiles ? static_cast<int>(row_.index.sums[mine]) : 0;
        const int upto = before + warp_inclusive_sum(of_tile);
        const unsigned reached = __ballot_sync(kAllLanes, upto >= n);
        if (reached != 0) {
          const int lane = __ffs(static_cast<int>(reached)) - 1;
          before = __shfl_sync(kAllLanes, upto - of_tile, lane);
          tile += lane;
          break;
        }
        before = __shfl_sync(kAllLanes, upto, kWarp - 1);
      }
      int end = values_.vocab();
      if (tile < row_.index.tiles) end = tie_in_tile(tile, n - before);
      if (lane_of_thread() == 0) row_.low_of_warp[0] = end;
    }
    sync_end();
    const int end = row_.low_of_warp[0];
    sync_end();
    return end;
  }

  /// A warp: the id after the n-th token of low_ in a tile that has so many.
  __device__ int tie_in_tile(int tile, int n) const {
    float x[kLaneValues];
    values_.read_in_order(tile, x);
    int mine = 0;
#pragma unroll
    for (const float value : x) mine += value == from_order_key(low_) ? 1 : 0;
    int upto = warp_inclusive_sum(mine) - mine;
    int end = INT_MAX;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      upto += x[i] == from_order_key(low_) ? 1 : 0;
      if (upto == n) end = min(end, tile * kTileSize + lane_of_thread() * kLaneValues + i + 1);
    }
    return __reduce_min_sync(kAllLanes, upto - mine < n ? end : INT_MAX);
  }

  RowEnd& row_;
  const TileRow<kType>& values_;
  const Blocks& blocks_;
  BlockMasses masses_;
  RowWeigher<kFromProbs> weigh_;

  bool by_count_ = false;
  uint128_t target_ = 0;
  RowCut floor_{};
  std::int32_t low_ = 0, high_ = 0;  ///< the threshold is among these keys
  unsigned most_inside_ = 0;         ///< tokens that reach low_, at most
  unsigned above_high_ = 0;          ///< tokens above high_, at least
};

}  // namespace fairdraw::cuda
