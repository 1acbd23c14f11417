// The threshold of a row that no list of candidates holds: brackets, each measured by all blocks.
//
// Contract. Among the tokens that a floor keeps, the largest value such that those that reach it
// weigh at least a target, or are at least so many; all that the floor keeps reach the target. What
// it returns is that cut, and the row's index then has the sums of what the cut keeps.
//
// Algorithm and cost. A bracket is guessed (bracket_guess.cuh) and measured by a pass of all blocks
// (bracket_pass.cuh): the exact mass above it by tile, and its values in a list. If the threshold
// is among these, it is found in the list; the list's survivors are added to the sums of their
// tiles, and no other pass is needed. Else what was measured narrows the range of keys that is
// still open: a missed guess is made wider, one with too long a list narrower. After some guesses,
// and where ties do not let the list become shorter, the range is cut at keys that were listed, and
// after some such pivots it is halved. So at most about 50 passes, whatever the values; one as a
// rule. Where the range is one key, however many tokens are tied, counts and sums end the search.
//
// State is the same in all threads, in registers. What needs more is in functions of their own
// (bracket_list.cuh, bracket_guess.cuh): one that is called spills less than one that is inlined.
//
// Determinism: integers decide; neither the order of a list nor a guess shows.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/tiles/brackets/bracket_guess.cuh"
#include "cuda/tiles/brackets/bracket_list.cuh"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// Samples the row for guesses of where `target` is reached. mass: of the sums in the index; 0:
/// tokens are counted.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void sample_row(const RowsTask& task, int blocks_log2,
                                        unsigned char* dynamic, PassOrder* order,
                                        std::int32_t lowest, uint128_t mass, uint128_t target) {
  RowEnd& row = *reinterpret_cast<RowEnd*>(dynamic);
  const TileRow<kForm> values(task.rows, task.allowed, row.number, kFromProbs, task.edits);
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  BlockMasses masses(row.masses);
  RowSample<kForm, kFromProbs> sample(row.guess, row.index, row.rule, weigh, row.keys,
                                      row.filters.vocab, lowest);
  const int warps = static_cast<int>(blockDim.x / kWarp) << blocks_log2;
  sample.plan(mass, target, warps, values, masses);
  pass_of_all<kForm, kFromProbs>(task, blocks_log2, dynamic, order, {PassKind::sample, {}, 0, 0});
  sample.gather({1 << blocks_log2, 0});
  sync_end();
}

/// For the threads of the row's end.
template <RowForm kForm, bool kFromProbs>
class BracketSearch {
 public:
  __device__ __forceinline__ explicit BracketSearch(const SharedRow& place)
      : place_(place), row_(*place.end()) {}

  /// The cut by top_k and top_p of the row above a floor; the index then has the sums of what it
  /// keeps.
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
        // Without top_k the sums in the index are those of which the row's mass was made.
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
  static constexpr float kDeviations = 3.0F;  ///< a miss in some 370 rows
  static constexpr float kWiden = 3.0F;       ///< the next guess, after a miss
  static constexpr float kOfCapacity = 0.7F;  ///< of the list, for a guess after one too long

  /// Sums of what a cut keeps, by tile.
  __device__ __forceinline__ void sum_kept(const RowCut& cut) {
    pass({PassKind::sum_and_list, cut, cut.low, cut.low - 1});
  }
  __device__ __forceinline__ void pass(const PassOrder& order) {
    pass_of_all<kForm, kFromProbs>(place_.task, place_.blocks_log2, place_.dynamic, place_.order,
                                   order);
  }

  /// What is kept from a key up: the floor's ties stay cut.
  __device__ RowCut cut_at(std::int32_t key) const {
    return key > floor_.low ? RowCut{key, row_.filters.vocab} : floor_;
  }

  /// mass: of the sums in the index, of all that the floor keeps; 0 where tokens are counted.
  __device__ __forceinline__ RowCut find(const RowCut& floor, uint128_t mass) {
    floor_ = floor;
    low_ = floor.low;
    high_ = row_.keys.largest;
    most_inside_ = static_cast<unsigned>(row_.filters.vocab);
    above_high_ = 0;
    const unsigned capacity = row_.bracket_capacity;
    if (most_inside_ > capacity) {
      sample_row<kForm, kFromProbs>(place_.task, place_.blocks_log2, place_.dynamic, place_.order,
                                    low_, mass, target_);
    }
    float deviations = kDeviations;
    unsigned shortest = UINT_MAX;  // list that was too long
    bool guesses = true;
#pragma unroll 1
    for (int round = 0; low_ < high_; ++round) {
      KeyInterval bracket{low_, high_};
      if (most_inside_ - above_high_ > capacity) {
        if (round < kGuesses && guesses) {
          bracket = guessed_bracket<kFromProbs>(row_.guess, nearest_double(target_), deviations,
                                                floor_.low);
          bracket = {min(max(bracket.low, low_), high_), max(min(bracket.high, high_), low_)};
          deviations *= kWiden;  // for the next guess, if this one misses
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
        most_inside_ = above;
        continue;
      }
      high_ = bracket.high < bracket.low ? high_ : bracket.high;
      above_high_ = above;
      if (size > capacity) {
        guesses = size < shortest / 4 * 3;  // else there are ties
        shortest = size;
        deviations *=
            kOfCapacity / kWiden * static_cast<float>(capacity) / static_cast<float>(size);
        if (by_count_ && reached + size >= target_) {
          low_ = bracket.low;
          most_inside_ = above + size;
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

  /// The cut among a bracket's values, with the sums of what it keeps. tie_end -1 where the bracket
  /// does not reach the target. reached: what is above it.
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
    // The estimate was wrong, or the threshold is below the list.
    key = bisect_list<kFromProbs>(row_, static_cast<int>(size), bracket, reached, target_);
    if (key == INT_MAX) return kNone;
    sum_kept(cut_at(key));
    return cut_at(key);
  }

  /// A key in (low_, high_]: by preference of a value that was listed.
  __device__ __forceinline__ std::int32_t pivot(bool of_list) {
    const std::uint32_t half =
        (static_cast<std::uint32_t>(high_) - static_cast<std::uint32_t>(low_) + 1U) / 2U;
    const auto middle = static_cast<std::int32_t>(static_cast<std::uint32_t>(low_) + half);
    const std::int32_t key = of_list ? listed_key(row_, low_, high_) : INT_MIN;
    if (key == INT_MIN) return middle;
    return key > low_ ? key : low_ + 1;
  }

  /// The threshold is low_; its tokens may be more than any list holds.
  __device__ __forceinline__ RowCut end_at_one_key() {
    RowCut cut = cut_at(low_);
    if (by_count_ && row_.filters.lowest_id) {
      pass({PassKind::sum_and_list, floor_, low_ + 1, low_});
      const int ties = static_cast<int>(static_cast<unsigned>(target_) - row_.list_size.above);
      pass({PassKind::count_in_bracket, floor_, low_, low_});
      cut.tie_end = end_of_ties<kForm, kFromProbs>(place_.task, place_.dynamic, low_, ties);
    }
    sum_kept(cut);
    return cut;
  }

  SharedRow place_;
  RowEnd& row_;

  bool by_count_ = false;
  uint128_t target_ = 0;
  RowCut floor_{};
  std::int32_t low_ = 0, high_ = 0;  ///< the threshold is among these keys
  unsigned most_inside_ = 0;         ///< tokens that reach low_, at most
  unsigned above_high_ = 0;          ///< tokens above high_, at least
};

/// Of the row's end: the cut by top_k and top_p above a floor, one of them at least, to row.cut. A
/// function of its own, because few rows come here.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void filter_by_passes(const RowsTask& task, int blocks_log2,
                                              unsigned char* dynamic, PassOrder* order,
                                              RowCut floor) {
  sync_end();  // what the first thread has written; what a list's end has read
  const SharedRow place{task, blocks_log2, dynamic, order};
  const RowCut cut = BracketSearch<kForm, kFromProbs>(place).filter(floor);
  if (threadIdx.x == 0) place.end()->cut = cut;
  sync_end();
}

}  // namespace fairdraw::cuda
