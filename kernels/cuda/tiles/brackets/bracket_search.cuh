// Finds the threshold of a row whose candidates do not fit into any list. The blocks of the row
// together measure one bracket of values after another.
//
// Contract. The threshold is the largest value v for which the tokens with values of at least v
// have at least a target weight, or are at least a target number. Only tokens that a floor keeps
// are included, and all of these tokens together reach the target. The result is the cut of the row
// at this threshold. Afterwards, the row's index has, for each tile, the sum of the tokens that the
// cut keeps.
//
// Algorithm and cost. A bracket is first guessed (bracket_guess.cuh) and then measured by a pass of
// all blocks (bracket_pass.cuh), which gives the exact mass above the bracket by tile, and a list
// of the values in the bracket. If the threshold is in the list, the search ends there: the weights
// of the list's survivors are added to the sums of their tiles, and no further pass is needed.
// Otherwise the measurement narrows the range of keys that may be the threshold. The next guess is
// wider if this bracket missed the threshold, and narrower if its list overflowed. After a number
// of guesses, or if tied values keep the list from becoming shorter, the range is divided at keys
// of listed values; after a number of these divisions, the range is halved. So a search takes at
// most about 50 passes, whatever the values are, and usually takes one. Once the range is a single
// key, counts and sums end the search, however many tokens have this key.
//
// The state of the search is in registers, and equal in all threads. The larger steps are functions
// out of line (bracket_list.cuh, bracket_guess.cuh), because a function that is called spills fewer
// registers than one that is inlined.
//
// Determinism: integers decide. The result depends neither on the order of a list nor on any guess.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/tiles/brackets/bracket_guess.cuh"
#include "cuda/tiles/brackets/bracket_list.cuh"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// Samples the row, so that the key at which `target` is reached can be guessed. `mass` is the
/// total of the sums in the index, or 0 if tokens are counted instead of weighed.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void sample_row(SharedRow<kForm> place, std::int32_t lowest, uint128_t mass,
                                        uint128_t target) {
  RowEnd& row = *place.end();
  const RowOfTiles<kForm> values = place.asked().row;
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  BlockMasses masses(row.masses);
  RowSample<kForm, kFromProbs> sample(row.guess, row.index(), row.rule, weigh, row.keys,
                                      row.filters.vocab, lowest);
  const int warps = static_cast<int>(blockDim.x / kWarp) << place.blocks_log2;
  sample.plan(mass, target, warps, values, masses);
  pass_of_all<kForm, kFromProbs>(place, {PassKind::sample, {}, 0, 0});
  sample.gather(place.cluster());
  sync_end();
}

/// Search for the cut of a row, run by the threads that finish the row.
template <RowForm kForm, bool kFromProbs>
class BracketSearch {
 public:
  __device__ __forceinline__ explicit BracketSearch(const SharedRow<kForm>& place)
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
  static constexpr int kGuesses = 6;
  static constexpr int kPivots = 16;
  static constexpr float kDeviations = 3.0F;  ///< the threshold is outside such a bracket in about
                                              ///< one of 370 rows
  static constexpr float kWiden = 3.0F;       ///< factor by which the guess is wider after a miss
  static constexpr float kOfCapacity = 0.7F;  ///< part of the list's capacity that the next guess
                                              ///< aims at after a list that overflowed

  /// Sums the tokens that a cut keeps, by tile.
  __device__ __forceinline__ void sum_kept(const RowCut& cut) {
    pass({PassKind::sum_and_list, cut, cut.low, cut.low - 1});
  }
  __device__ __forceinline__ void pass(const PassOrder& order) {
    pass_of_all<kForm, kFromProbs>(place_, order);
  }

  /// Returns the cut that keeps all keys >= `key`. Tied tokens that the floor drops stay dropped.
  __device__ RowCut cut_at(std::int32_t key) const {
    return key > floor_.low ? RowCut{key, row_.filters.vocab} : floor_;
  }

  /// Finds the cut of one filter among the tokens that a floor keeps. `mass` is 0 if tokens are
  /// counted; otherwise `mass` is the mass of all tokens that the floor keeps, and the index has
  /// their sums.
  __device__ __forceinline__ RowCut find(const RowCut& floor, uint128_t mass) {
    floor_ = floor;
    low_ = floor.low;
    high_ = row_.keys.largest;
    max_inside_ = static_cast<unsigned>(row_.filters.vocab);
    above_high_ = 0;
    const unsigned capacity = row_.bracket_capacity;
    if (max_inside_ > capacity) {
      sample_row<kForm, kFromProbs>(place_, low_, mass, target_);
    }
    float deviations = kDeviations;
    unsigned shortest = UINT_MAX;  // length of the shortest list that overflowed
    bool guesses = true;
#pragma unroll 1
    for (int round = 0; low_ < high_; ++round) {
      KeyInterval bracket{low_, high_};
      if (max_inside_ - above_high_ > capacity) {
        if (round < kGuesses && guesses) {
          bracket = guessed_bracket<kFromProbs>(row_.guess, nearest_double(target_), deviations,
                                                floor_.low);
          bracket = {min(max(bracket.low, low_), high_), max(min(bracket.high, high_), low_)};
          deviations *= kWiden;  // the next guess is wider, if this bracket misses the threshold
        } else {
          const std::int32_t key = pivot(round < kGuesses + kPivots);
          bracket = {key, key - 1};
        }
      }
      pass({PassKind::sum_and_list, floor_, bracket.low, bracket.high});
      const unsigned above = row_.list_size.above;
      const unsigned size = row_.list_size.size;
      const uint128_t reached = by_count_ ? uint128_t{above} : mass_of_sums<kFromProbs>(row_);
      if (reached >= target_) {
        low_ = bracket.high + 1;
        max_inside_ = above;
        continue;
      }
      high_ = bracket.high < bracket.low ? high_ : bracket.high;
      above_high_ = above;
      if (size > capacity) {
        guesses = size < shortest / 4 * 3;  // guess again only if the lists become shorter, because
                                            // ties would keep them long
        shortest = size;
        deviations *=
            kOfCapacity / kWiden * static_cast<float>(capacity) / static_cast<float>(size);
        if (by_count_ && reached + size >= target_) {
          low_ = bracket.low;
          max_inside_ = above + size;
        } else if (by_count_) {
          high_ = bracket.low - 1;
          above_high_ = above + size;
        }
        continue;
      }
      const RowCut cut = find_in_list(bracket, size, reached);
      if (cut.tie_end >= 0) return cut;
      high_ = bracket.low - 1;
      above_high_ = above + size;
    }
    return end_at_one_key();
  }

  /// Finds the cut among the values in a bracket, and sums the tokens that the cut keeps. The
  /// result's tie_end is -1 if the bracket does not reach the target. `reached` is the mass, or the
  /// number, of the tokens above the bracket.
  __device__ __forceinline__ RowCut find_in_list(const KeyInterval& bracket, unsigned size,
                                                 uint128_t reached) {
    constexpr RowCut kNone{0, -1};
    if (size == 0) return kNone;
    if (by_count_) {
      if (reached + size < target_) return kNone;
      return kth_in_list<kFromProbs>(row_, static_cast<int>(size), bracket,
                                     static_cast<int>(static_cast<unsigned>(target_ - reached)));
    }
    std::int32_t key =
        narrow_to_nucleus<kFromProbs>(row_, static_cast<int>(size), bracket, reached, target_);
    if (key != INT_MAX) return cut_at(key);
    // Either the estimate was wrong, or the threshold is below the listed values.
    key = bisect_list<kFromProbs>(row_, static_cast<int>(size), bracket, reached, target_);
    if (key == INT_MAX) return kNone;
    sum_kept(cut_at(key));
    return cut_at(key);
  }

  /// Returns a key in (low_, high_], which is the key of a listed value if possible.
  __device__ __forceinline__ std::int32_t pivot(bool of_list) {
    const std::uint32_t half =
        (static_cast<std::uint32_t>(high_) - static_cast<std::uint32_t>(low_) + 1U) / 2U;
    const auto middle = static_cast<std::int32_t>(static_cast<std::uint32_t>(low_) + half);
    const std::int32_t key = of_list ? listed_key(row_, low_, high_) : INT_MIN;
    if (key == INT_MIN) return middle;
    return key > low_ ? key : low_ + 1;
  }

  /// Returns the cut at the threshold low_ when no other key remains; the list may be too short for
  /// all tokens with this key.
  __device__ __forceinline__ RowCut end_at_one_key() {
    RowCut cut = cut_at(low_);
    if (by_count_ && row_.filters.lowest_id) {
      pass({PassKind::sum_and_list, floor_, low_ + 1, low_});
      const int ties = static_cast<int>(static_cast<unsigned>(target_) - row_.list_size.above);
      pass({PassKind::count_in_bracket, floor_, low_, low_});
      cut.tie_end = end_of_ties(row_, place_.asked().row, low_, ties);
    }
    sum_kept(cut);
    return cut;
  }

  SharedRow<kForm> place_;
  RowEnd& row_;

  bool by_count_ = false;
  uint128_t target_ = 0;
  RowCut floor_{};
  std::int32_t low_ = 0, high_ = 0;  ///< range of keys that contains the threshold
  unsigned max_inside_ = 0;          ///< upper bound of the number of tokens with keys >= low_
  unsigned above_high_ = 0;          ///< lower bound of the number of tokens with keys above high_
};

/// Sets row.cut to the cut of top_k, top_p or both among the tokens that a floor keeps. All threads
/// that finish the row must call this function. The function is out of line, because few rows need
/// it.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void filter_by_passes(SharedRow<kForm> place, RowCut floor) {
  sync_end();  // wait until the first thread has written, and all threads have read the counters of
               // the list
  const RowCut cut = BracketSearch<kForm, kFromProbs>(place).filter(floor);
  if (threadIdx.x == 0) place.end()->cut = cut;
  sync_end();
}

}  // namespace fairdraw::cuda
