// Finds the threshold of a row whose candidates do not fit into a list, by passes of all blocks.
//
// Contract. The threshold is the largest value v for which the tokens with values of at least v
// have at least a target weight, or are at least a target number. Only tokens that a floor keeps
// are included. The result is the cut of the row at this threshold, or the floor if all of these
// tokens together do not reach the target number. Afterwards, the row's index has, for each tile,
// the sum of the tokens that the cut keeps.
//
// Algorithm and cost. A pass of all blocks divides the row's tokens into 1024 bins of equal width,
// which for probabilities have equal width in octaves, and adds up the number or the rounded weight
// of the tokens in each bin. One bin, or two, reach the target within the error of rounding. The
// next pass measures this bracket exactly: the mass above the bracket by tile, and a list of the
// values in the bracket (threshold_pass.cuh). If the threshold is in the list, the search ends
// there (long_list.cuh): the weights of the list's survivors are added to the sums of their tiles.
// Otherwise the measurement narrows the interval of keys that may be the threshold, and this
// interval is divided into bins again. If the list overflows, perhaps because values are tied, one
// listed value is measured first. The first two divisions are by value, and the later ones by key,
// so that even values that span all octaves need few passes. Usually a search takes two passes.
// Once the interval is a single key, counts and sums end the search, however many tokens have this
// key.
//
// For top_k, the bins begin at one of the tiles' largest values that the k-th largest token cannot
// exceed, because bins that begin at the row's largest value are too wide where the largest values
// are far from the others. So any top_k from 2000 to 120000 of 256 rows of 128256 logits takes 243
// to 252 us (H200), peaked or flat; with bins from the largest value, 50000 of peaked rows took
// 401.
//
// A sample of the tiles in place of the first pass takes a quarter less time at 256 rows, but then
// brackets must have margins of standard deviations, which lists of this length often cannot hold:
// top_k 50000 took 1.4 times as long.
//
// The target of top_p limits how far bins must reach. The tokens below the threshold together have
// the weight (1 - p) Z, where Z is the mass of the row, and each of these tokens weighs at most as
// much as the threshold. So the threshold's weight is at least (1 - p) Z / V.
//
// The state of the search is in registers, and equal in all threads. The larger steps are functions
// out of line, because a function that is called spills fewer registers than one that is inlined.
//
// Determinism: integers decide. The result depends neither on the order of a list nor on the bins.
#pragma once

#include <climits>
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/long_list.cuh"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// Returns the total mass of the sums in the row's index. The function has two barriers.
template <bool kFromProbs>
__device__ __noinline__ uint128_t mass_of_sums(const RowEnd& passed) {
  const RowEnd& row = in_shared(passed);
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  const RowIndex index = row.index();
  uint128_t mine = 0;
#pragma unroll 1
  for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += kEndThreads) {
    const std::uint64_t sum = index.sums[tile];
    if (sum != 0) mine += row_weight(sum, weigh.shift_of(index.keys[tile]));
  }
  BlockMasses masses(const_cast<BlockMasses::Memory&>(row.masses));
  const uint128_t mass = masses.sum(mine);
  sync_end();
  return mass;
}

/// Interval of keys that contains the threshold, with what is known about its tokens.
struct ThresholdInterval {
  KeyInterval keys;
  uint128_t above;  ///< number or mass of the tokens above the interval, which is below the target
  unsigned inside;  ///< upper bound of the number of tokens in the interval
};

/// Division of an interval of a row into bins, by the threads that finish the row.
template <RowForm kForm, bool kFromProbs>
class ThresholdBins {
  static constexpr int kBins = BinRule::kBins;
  static constexpr float kKeysOfOctave = 0x1p23F;  ///< number of keys per octave of probabilities
  /// Logarithm of the number of units into which the mass that may be in the interval is divided.
  /// The rounding of 2^20 tokens changes a sum by less than 2^20 units, so that sums fit into 32
  /// bits.
  static constexpr int kUnitBits = 30;
  /// The bracket has a margin of a 2^-15 part of the units on each side, for the rounding of 2^17
  /// tokens that each have less than half a unit. A bracket that misses the threshold costs two
  /// more passes.
  static constexpr int kMarginBits = 15;
  static constexpr int kDivisionsByValue = 2;  ///< number of divisions of an interval by value
  /// If tokens are counted, the bins reach kReach times as far below their first key as the
  /// smallest of the tiles' largest values is. For k of 1000 up to 0.99 V, the k-th largest value
  /// of all rows of a trained model (suites/data), and of normally distributed rows of up to 262144
  /// tokens, is within this reach, in a bin of at most 815 tokens. With a reach of 6, normally
  /// distributed rows need one more pass from k = 0.78 V on.
  static constexpr float kReach = 8.0F;

 public:
  __device__ __forceinline__ ThresholdBins(const SharedRow<kForm>& place, const RowCut& floor,
                                           uint128_t mass, uint128_t target)
      : place_(place), row_(*place.end()), floor_(floor), mass_(mass), target_(target) {}

  /// Returns the part of an interval that contains the threshold, if the rounding of weights was
  /// not misleading. `divisions` is the number of earlier divisions of the row.
  __device__ KeyInterval divide(const ThresholdInterval& interval, int divisions) const {
    const BinRule rule = rule_of(interval, divisions);
    if (threadIdx.x == 0) row_.bin_rule = rule;  // read after the next barrier
    // The last bin may stay empty, because it has the threshold if the others do not reach the
    // target.
    const std::int32_t lowest = rule.first_key_of(kBins - 2, interval.keys);
    pass_of_all<kForm, kFromProbs>(place_,
                                   {PassKind::fill_bins, floor_, lowest, interval.keys.high});
    const Bins found = find(interval);
    const std::int32_t low =
        found.last == kBins - 1 ? interval.keys.low : rule.first_key_of(found.last, interval.keys);
    const std::int32_t high = found.first == 0
                                  ? interval.keys.high
                                  : rule.first_key_of(found.first - 1, interval.keys) - 1;
    return {low, max(low, high)};
  }

 private:
  struct Bins {
    int first, last;
  };

  __device__ bool counts() const { return mass_ == 0; }

  __device__ BinRule rule_of(const ThresholdInterval& interval, int divisions) const {
    const float largest = from_order_key(row_.keys.largest);
    BinRule rule{};
    rule.high_key = interval.keys.high;
    rule.high = from_order_key(interval.keys.high);
    rule.by_key = kFromProbs || divisions >= kDivisionsByValue;
    rule.counts = counts();
    rule.largest = largest;
    if (divisions == 0 && counts()) begin_near_rank(rule);
    const float low = from_order_key(interval.keys.low);
    float reach = rule.distance(low);
    if (divisions == 0) {
      if (counts()) {
        reach = fminf(reach, kReach * rule.distance(from_order_key(row_.keys.smallest)));
      } else {
        reach = fminf(reach, octaves_to_reach() * distance_of_octave());
      }
      // If the tiles have equal largest values, the largest key gets a bin of its own.
      if (reach == 0) return with_reach(rule, true, static_cast<float>(kBins - 1));
    }
    if (!counts()) {
      const double left = nearest_double(mass_ - interval.above);
      rule.units_log2 = log2f(static_cast<float>(heaviest() / left)) + kUnitBits;
      if (kFromProbs) rule.units_log2 -= log2f(largest);
    }
    // The distance between the ends of an interval of logits may be infinite.
    if (reach < INFINITY) return with_reach(rule, rule.by_key, reach);
    rule.by_key = true;
    return with_reach(rule, true, rule.distance(low));
  }

  /// Begins the bins near the r-th largest of the tiles' largest values, where r is k / 512. At
  /// most 17 r / 16 tiles have tokens above this value, so that at most 17 k / 32 tokens are above
  /// it, and the k-th largest token is not.
  __device__ void begin_near_rank(BinRule& rule) const {
    constexpr auto kTokensOfRank = static_cast<unsigned>(2 * kTileSize);
    const TileKeys& keys = row_.keys;
    const int rank =
        min(static_cast<int>(static_cast<unsigned>(target_) / kTokensOfRank), keys.count);
    if (rank <= 1) return;
    const std::int32_t first =
        search_tile_keys(row_.index(), row_.search, {keys.smallest, keys.largest, keys.count}, rank,
                         rank / 16)
            .low;
    if (first <= floor_.low) return;
    rule.high_key = first;
    rule.high = from_order_key(first);
  }

  __device__ static BinRule with_reach(BinRule rule, bool by_key, float reach) {
    rule.by_key = by_key;
    rule.of_distance = static_cast<float>(kBins - 1) / reach;
    return rule;
  }

  /// Returns the weight of the row's largest value.
  __device__ double heaviest() const {
    const RowWeigher<kFromProbs> weigh(row_.rule, row_.keys.largest);
    return nearest_double(weigh(from_order_key(row_.keys.largest), row_.keys.largest));
  }

  __device__ float distance_of_octave() const {
    return kFromProbs ? kKeysOfOctave : 1.0F / row_.rule.scale;
  }

  /// Returns the number of octaves, plus one, from the largest value to the smallest threshold that
  /// the nucleus may have.
  __device__ float octaves_to_reach() const {
    constexpr double kMinRest = 0x1p-24;  // smallest part of the mass that is assumed to be below
                                          // the threshold
    const double rest = fmax(nearest_double(mass_ - target_), nearest_double(mass_) * kMinRest);
    const auto octaves =
        static_cast<float>(heaviest() / rest * static_cast<double>(row_.filters.vocab));
    return fmaxf(log2f(octaves), 0.0F) + 1.0F;
  }

  /// Adds up the bins of all blocks, and returns the bins that contain the threshold.
  __device__ Bins find(const ThresholdInterval& interval) const {
    constexpr int kOfThread = kBins / kEndThreads;
    const int first = static_cast<int>(threadIdx.x) * kOfThread;
    unsigned units[kOfThread] = {};
    unsigned mine = 0;
#pragma unroll 1
    for (int block = 0; block < place_.cluster().blocks; ++block) {
      const unsigned* const of_block = place_.cluster().at(&row_.list, block)->bins + first;
#pragma unroll
      for (int i = 0; i < kOfThread; i += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(of_block + i);
        units[i] += four.x;
        units[i + 1] += four.y;
        units[i + 2] += four.z;
        units[i + 3] += four.w;
      }
    }
#pragma unroll
    for (const unsigned of_bin : units) mine += of_bin;
    const BlockMasses::Prefix prefix = BlockMasses(row_.masses).prefix(mine);
    const auto all = static_cast<double>(static_cast<std::uint64_t>(prefix.total));
    double wanted = nearest_double(target_ - interval.above);
    double margin = 0;
    if (!counts()) {
      wanted = ldexp(wanted / nearest_double(mass_ - interval.above), kUnitBits);
      margin = ldexp(all, -kMarginBits);
    }
    const double from = fmax(wanted - margin, 0.5);  // at least one unit
    const double to = wanted + margin;
    if (threadIdx.x == 0) row_.bin_edges[0] = row_.bin_edges[1] = kBins - 1;
    sync_end();
    auto before = static_cast<double>(static_cast<std::uint64_t>(prefix.before));
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const double upto = before + units[i];
      const int bin = first + i;
      if (before < from && upto >= from) row_.bin_edges[0] = bin;
      if (before < to && upto >= to) row_.bin_edges[1] = bin;
      before = upto;
    }
    sync_end();
    const Bins found{row_.bin_edges[0], row_.bin_edges[1]};
    sync_end();
    return found;
  }

  const SharedRow<kForm>& place_;
  RowEnd& row_;
  const RowCut& floor_;
  uint128_t mass_, target_;
};

/// Returns the bracket of an interval that the next pass measures (ThresholdBins::divide).
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ KeyInterval divide_by_bins(SharedRow<kForm> place, RowCut floor,
                                                   ThresholdInterval interval, uint128_t mass,
                                                   uint128_t target, int divisions) {
  return ThresholdBins<kForm, kFromProbs>(place, floor, mass, target).divide(interval, divisions);
}

/// Result of a search in the list of a bracket.
struct ListedCut {
  bool found;
  RowCut cut;
  uint128_t reached;  ///< number or mass of the tokens above the bracket and in it, if the cut was
                      ///< not found
};

/// Finds the cut among the n listed values of a bracket, and adds the weights of the survivors to
/// the sums of their tiles. The cut keeps the `target - above` largest values, if `by_count` is
/// true, and otherwise the largest values that have this mass.
template <bool kFromProbs>
__device__ __noinline__ ListedCut cut_in_list(RowEnd& passed, int n, KeyInterval bracket,
                                              bool by_count, uint128_t above, uint128_t target) {
  RowEnd& row = in_shared(passed);
  LongList<kFromProbs> list(row, n, bracket);
  RowCut cut{bracket.low, row.filters.vocab};
  uint128_t listed = static_cast<unsigned>(n);
  if (!by_count) {
    list.weigh(cut);
    listed = list.total();
  }
  if (above + listed < target) return {false, cut, above + listed};
  if (by_count) {
    cut = list.top_k(static_cast<int>(static_cast<unsigned>(target - above)));
    list.weigh(cut);
  } else {
    cut.low = list.top_p(bracket.low, target - above);
  }
  list.add_to_tiles(cut.low);
  sync_end();
  return {true, cut, 0};
}

/// Returns the id that follows the n-th token with a given key, in a tile that has at least n such
/// tokens. A whole warp must call this function.
template <RowForm kForm>
__device__ __forceinline__ int tie_in_tile(const RowOfTiles<kForm>& row, int tile, std::int32_t key,
                                           int n) {
  float x[kLaneValues];
  row.read_in_order(tile, x);
  const float value = from_order_key(key);
  int mine = 0;
#pragma unroll
  for (const float other : x) mine += other == value ? 1 : 0;
  const int before = warp_inclusive_sum(mine) - mine;
  int upto = before;
  int end = INT_MAX;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) {
    upto += x[i] == value ? 1 : 0;
    if (upto == n) end = min(end, tile * kTileSize + lane_of_thread() * kLaneValues + i + 1);
  }
  return __reduce_min_sync(kAllLanes, before < n ? end : INT_MAX);
}

/// Returns the id that follows the row's n-th token with a given key, or vocab if the row has fewer
/// such tokens. Precondition: the sum of each tile in the index is the number of the tile's tokens
/// with this key.
template <RowForm kForm>
__device__ __noinline__ int end_of_ties(RowEnd& passed, const RowOfTiles<kForm>& values,
                                        std::int32_t key, int n) {
  RowEnd& row = in_shared(passed);
  if (warp_of_thread() == 0) {
    int end = row.filters.vocab;
    int before = 0;
#pragma unroll 1
    for (int first = 0; first < row.index().tiles; first += kWarp) {
      const int tile = first + lane_of_thread();
      const int mine = tile < row.index().tiles ? static_cast<int>(row.index().sums[tile]) : 0;
      const int upto = before + warp_inclusive_sum(mine);
      const unsigned reached = __ballot_sync(kAllLanes, upto >= n);
      if (reached != 0) {
        const int lane = __ffs(static_cast<int>(reached)) - 1;
        end = tie_in_tile(values, first + lane, key, n - __shfl_sync(kAllLanes, upto - mine, lane));
        break;
      }
      before = __shfl_sync(kAllLanes, upto, kWarp - 1);
    }
    if (lane_of_thread() == 0) row.low_of_warp[0] = end;
  }
  sync_end();
  const int end = row.low_of_warp[0];
  sync_end();
  return end;
}

/// Search for the cut of a row, run by the threads that finish the row.
template <RowForm kForm, bool kFromProbs>
class ThresholdSearch {
 public:
  __device__ __forceinline__ explicit ThresholdSearch(const SharedRow<kForm>& place)
      : place_(place), row_(*place.end()) {}

  /// Returns the cut of the row by top_k and top_p among the tokens that the floor `cut` keeps.
  /// Afterwards, the index has the sums of the tokens that the returned cut keeps.
  __device__ __forceinline__ RowCut filter(RowCut cut) {
    const bool top_k_on = row_.filters.top_k_on();
    const bool top_p_on = row_.filters.top_p_on();
#pragma unroll 1
    for (int stage = top_k_on ? 0 : 1; stage < (top_p_on ? 2 : 1); ++stage) {
      by_count_ = stage == 0;
      uint128_t kept = 0;
      if (by_count_) {
        target_ = static_cast<unsigned>(row_.filters.top_k);
      } else {
        // Without top_k, the sums in the index add up to the mass of the row.
        kept = row_.filters.by_row_mass && !top_k_on ? row_.filters.row_mass
                                                     : mass_of_sums<kFromProbs>(row_);
        target_ = nucleus_target(row_.filters.top_p,
                                 row_.filters.by_row_mass ? row_.filters.row_mass : kept);
        if (kept < target_) break;
      }
      cut = find(cut, kept);
    }
    return cut;
  }

 private:
  static constexpr auto kCapacity = static_cast<unsigned>(CandidateList::kMax);

  __device__ __forceinline__ void pass(const PassOrder& order) {
    pass_of_all<kForm, kFromProbs>(place_, order);
  }
  /// Sums the tokens that a cut keeps, by tile.
  __device__ __forceinline__ void sum_kept(const RowCut& cut) {
    pass({PassKind::sum_and_list, cut, cut.low, cut.low - 1});
  }

  /// Returns the cut that keeps all keys >= `key`. Tied tokens that the floor drops stay dropped.
  __device__ RowCut cut_at(std::int32_t key) const {
    return key > floor_.low ? RowCut{key, row_.filters.vocab} : floor_;
  }

  /// Finds the cut of one filter among the tokens that a floor keeps. `mass` is 0 if tokens are
  /// counted; otherwise `mass` is the mass of all tokens that the floor keeps.
  __device__ __forceinline__ RowCut find(const RowCut& floor, uint128_t mass) {
    floor_ = floor;
    interval_ = {{floor.low, row_.keys.largest}, 0, static_cast<unsigned>(row_.filters.vocab)};
#pragma unroll 1
    for (int divisions = 0; interval_.keys.low < interval_.keys.high;) {
      KeyInterval bracket = interval_.keys;
      if (listed_key_ != INT_MIN) {
        // A list that overflowed may consist of ties, so that the threshold may be any listed key.
        bracket = {listed_key_, listed_key_};
        listed_key_ = INT_MIN;
      } else if (interval_.inside > kCapacity) {
        bracket = divide_by_bins<kForm, kFromProbs>(place_, floor_, interval_, mass, target_,
                                                    divisions++);
        if (bracket.low == interval_.keys.low && bracket.high == interval_.keys.high) {
          bracket.high = bracket.lower_middle();  // so that each round narrows the interval
        }
      }
      FAIRDRAW_DEVICE_ASSERT(bracket.low >= interval_.keys.low && bracket.low <= bracket.high &&
                             bracket.high <= interval_.keys.high);
      const ListedCut listed = measure(bracket);
      if (listed.found) {
        return by_count_ || listed.cut.low > floor_.low ? listed.cut : floor_;
      }
    }
    return end_at_one_key();
  }

  /// Measures a bracket of the interval exactly. Returns the cut if a list of the bracket's tokens
  /// has the threshold, and otherwise narrows the interval.
  __device__ __forceinline__ ListedCut measure(const KeyInterval& bracket) {
    pass({PassKind::sum_and_list, floor_, bracket.low, bracket.high});
    const unsigned size = row_.list_size.size;
    const unsigned above = row_.list_size.above;
    const std::int32_t listed_key = row_.list.key[0];  // a key of the bracket, if size > 0
    const uint128_t reached = by_count_ ? uint128_t{above} : mass_of_sums<kFromProbs>(row_);
    ListedCut listed{};
    if (reached >= target_) {
      interval_.keys.low = bracket.high + 1;
      interval_.inside = min(interval_.inside, above);
      return listed;
    }
    interval_.keys.high = bracket.high;
    interval_.above = reached;
    if (size <= kCapacity) {
      listed = cut_in_list<kFromProbs>(row_, static_cast<int>(size), bracket, by_count_, reached,
                                       target_);
    } else if (by_count_) {
      listed.reached = reached + size;
    } else {
      pass({PassKind::sum_and_list, floor_, bracket.low, bracket.low - 1});
      listed.reached = mass_of_sums<kFromProbs>(row_);
    }
    if (listed.reached >= target_) {
      interval_.keys.low = bracket.low;
      interval_.inside = min(interval_.inside, size);
      listed_key_ = listed_key;
    } else if (!listed.found) {
      interval_.keys.high = bracket.low - 1;
      interval_.above = listed.reached;
    }
    return listed;
  }

  /// Returns the cut at the threshold when no other key remains; the list may be too short for all
  /// tokens with this key.
  __device__ __forceinline__ RowCut end_at_one_key() {
    const std::int32_t key = interval_.keys.low;
    RowCut cut = cut_at(key);
    if (by_count_ && row_.filters.lowest_id) {
      pass({PassKind::sum_and_list, floor_, key + 1, key});
      const int ties = static_cast<int>(static_cast<unsigned>(target_) - row_.list_size.above);
      pass({PassKind::count_in_bracket, floor_, key, key});
      cut.tie_end = end_of_ties(row_, place_.asked().row, key, ties);
    }
    sum_kept(cut);
    return cut;
  }

  SharedRow<kForm> place_;
  RowEnd& row_;

  bool by_count_ = false;
  uint128_t target_ = 0;
  RowCut floor_{};
  ThresholdInterval interval_{};
  std::int32_t listed_key_ = INT_MIN;  ///< key of a list that overflowed; INT_MIN: none
};

/// Sets row.cut to the cut of top_k, top_p or both among the tokens that a floor keeps. All threads
/// that finish the row must call this function. The function is out of line, because few rows need
/// it.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void search_threshold(SharedRow<kForm> place, RowCut floor) {
  sync_end();  // wait until the first thread has written, and all threads have read the counters of
               // the list
  const RowCut cut = ThresholdSearch<kForm, kFromProbs>(place).filter(floor);
  if (threadIdx.x == 0) place.end()->cut = cut;
  sync_end();
}

}  // namespace fairdraw::cuda
