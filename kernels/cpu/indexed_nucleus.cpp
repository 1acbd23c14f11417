// top_p on one row: where the nucleus ends (indexed_row.h).
//
// The threshold is the largest value v whose mass W(>= v) reaches the target max(1, ceil(p Z)).
// The total Z needs every weight once. So that this one pass also finds v, a bracket of values is
// guessed before it, and the pass makes the index of tiles, sums the weights above the bracket by
// tile, and lists the bracket's values. If the target lies between the mass above and that with
// the bracket, v is in the list; what is above and the list's values then are the prefix sums of
// the survivors, without another pass.
//
// Where top_p is the only filter, nothing reads the row before that pass: a sample alone says
// whether to guess, or to make the index first and to look at the largest values
// (nucleus_guess.cpp).
//
// The guess is that of nucleus_guess.cpp. Where it is wrong the exact sums tell, and it costs a
// pass over the side that it missed.
#include <algorithm>
#include <limits>
#include <optional>

#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cpu/indexed_row.h"

namespace fairdraw::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargestFinite = std::numeric_limits<float>::max();
constexpr auto kTile = static_cast<std::size_t>(kTileSize);
/// One value in so many may be listed where the pass that measures tiles would be the second.
constexpr std::size_t kShortestShare = 3;

}  // namespace

void IndexedRow::apply_top_p(float top_p, FilterOrder filter_order, float base) {
  if (low_ >= max_) return;  // only ties of the maximum are left: every nucleus holds them
  if (on_list_) {
    cut_list_to_nucleus(top_p, filter_order, base);
  } else {
    cut_row_to_nucleus(top_p, filter_order, base);
  }
}

void IndexedRow::cut_list_to_nucleus(float top_p, FilterOrder filter_order, float base) {
  const bool joint = filter_order == FilterOrder::joint;
  const uint128_t survivors = survivors_weight();
  const uint128_t target = nucleus_target(top_p, joint ? weight_of_row_from(base) : survivors);
  // Jointly, what top_k keeps may hold less than the nucleus needs: then all of it stays.
  if (survivors < target) return;
  weigh_list(low_);
  const float threshold = select_in_list(low_, max_, target);
  if (threshold <= low_) return;
  low_ = threshold;
  tie_end_ = n_;
  tie_end_in_domain_ = list_size_;
  prefix_.clear();
}

// --- The pass ------------------------------------------------------------------------------------

/// top_p alone, on a row that no pass has read yet: the pass that finds the nucleus is the first.
RowStatus IndexedRow::cut_unread_row_to_nucleus(float top_p) {
  take_sample(low_, kLargestFinite);
  if (sample_size_ == 0) {
    if (const RowStatus status = index_row(); status != RowStatus::ok) return status;
    cut_row_to_nucleus(top_p, FilterOrder::top_k_first, low_);
    return RowStatus::ok;
  }
  max_ = passes_->range(sample_.data(), sample_size_).max;
  std::optional<Bracket> guess = guess_in_even_row(top_p, low_);
  if (guess) {
    if (const RowStatus status = measure_tiles(*guess, low_); status != RowStatus::ok) {
      return status;
    }
  } else {
    // Few tokens may hold most of the mass: the index finds them, and may be all that is needed.
    if (const RowStatus status = index_row(); status != RowStatus::ok) return status;
    guess = guess_in_uneven_row(top_p, low_);
    // The total is known: a list of all values from the bracket up says where the nucleus ends, and
    // while it is short it is cheaper than to weigh all of them again.
    if (guess->kind == BracketKind::to_list &&
        collect_list(guess->low, kLargestFinite, n_ / kShortestShare)) {
      guess = {guess->low, max_, BracketKind::listed};
    } else if (guess->kind != BracketKind::listed) {
      measure_tiles(*guess, low_);
    }
  }
  cut_at(*guess, top_p, /*joint=*/false, low_);
  return RowStatus::ok;
}

void IndexedRow::cut_row_to_nucleus(float top_p, FilterOrder filter_order, float base) {
  const bool joint = filter_order == FilterOrder::joint;
  // What the nucleus is measured on: everything from `base` up, or the survivors of top_k.
  const float from = joint ? base : low_;
  const Bracket guess = guess_nucleus(top_p, from);
  if (guess.kind == BracketKind::listed && from <= smallest_allowed()) {
    need_tile_sums();
  } else {
    measure_tiles(guess, from);
  }
  cut_at(guess, top_p, joint, from);
}

/// Cuts a row whose tiles were measured for a bracket.
void IndexedRow::cut_at(const Bracket& guess, float top_p, bool joint, float from) {
  const MeasuredBracket measured = measured_bracket(guess);
  const uint128_t target =
      nucleus_target(top_p, measured.total - (joint ? 0 : weight_of_cut_ties()));

  float threshold = guess.low;
  bool list_is_the_top = !guess.one_value() && guess.high >= max_;
  bool guess_holds = false;
  list_low_ = guess.low;
  if (measured.above >= target) {  // the guess was too low
    list_low_ = next_above(guess.high);
    collect_list(list_low_, kLargestFinite, n_);
    list_is_the_top = true;
    weigh_list(list_low_);
    threshold = select_in_list(list_low_, max_, target);
  } else if (measured.above + measured.inside < target && guess.low > from) {  // too high
    const float high = previous_below(guess.low);
    collect_list(from, high, n_);
    list_is_the_top = false;
    weigh_list(from);
    threshold = select_in_list(from, high, target - measured.above - measured.inside);
  } else {
    guess_holds = true;
    if (!guess.one_value()) {
      threshold = select_in_list(guess.low, std::min(guess.high, max_), target - measured.above);
    }
  }
  if (threshold <= low_) return;  // nothing is cut; ties that top_k cut stay cut
  low_ = threshold;
  tie_end_ = n_;
  if (list_is_the_top) {
    use_list(list_low_);
  } else {
    use_row();
    if (guess_holds) add_bracket_to_tiles(guess, threshold);
  }
}

/// The weight of all that was measured, and of what is above the bracket; weighs the bracket's
/// list, where its values were not counted because they are all equal.
IndexedRow::MeasuredBracket IndexedRow::measured_bracket(const Bracket& bracket) {
  MeasuredBracket measured{};
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    const int shift = shifts_[tile];
    measured.total += row_weight(sums_[tile], shift);
    if (bracket.kind != BracketKind::listed) {
      measured.above += row_weight(survivor_sums_[tile], shift);
    }
    if (bracket.one_value()) {
      measured.inside += row_weight(ties_[tile], shift);
    }
  }
  if (!bracket.one_value()) measured.inside = weigh_list(bracket.low);
  return measured;
}

/// One pass: keys of all tiles, the weight of the values >= from and of those above the bracket;
/// lists the bracket's values, or weighs them where they are all equal. The status is that of
/// the row: a row that was read before is ok.
RowStatus IndexedRow::measure_tiles(const Bracket& bracket, float from) {
  for (std::vector<std::uint64_t>* sums : {&sums_, &survivor_sums_}) {
    if (sums->size() < tiles_) sums->resize(tiles_);
  }
  if (keys_.size() < tiles_) keys_.resize(tiles_);
  if (run_begin_.size() < tiles_) run_begin_.resize(tiles_);
  // Two kinds list nothing: their low end is out of reach, and what the pass overwrites is not
  // the list that the head may be in.
  const bool lists = bracket.kind == BracketKind::to_list;
  if (lists) reserve_with_slack(list_, n_);
  float overwritten[kSlack];
  const BracketBounds bounds{from, lists ? bracket.low : kInfinity,
                             bracket.kind == BracketKind::listed ? kInfinity : bracket.high};
  const Measured measured =
      bracket_passes_->measure(row_, n_, rule_, bounds,
                               {keys_.data(), sums_.data(), survivor_sums_.data(),
                                run_begin_.data(), lists ? list_.data() : overwritten});
  if (measured.has_nan) return RowStatus::nan_input;
  if (const RowStatus status = use_keys(); status != RowStatus::ok) return status;
  has_sums_ = from <= smallest_allowed();
  if (lists) {
    list_size_ = measured.listed;
    list_runs_.clear();
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      list_runs_.push_back({tile, run_begin_[tile]});
    }
  }
  if (bracket.one_value()) weigh_ties(bracket.low);
  return RowStatus::ok;
}

/// Weighs the tokens of one value, tile by tile.
void IndexedRow::weigh_ties(float value) {
  if (ties_.size() < tiles_) ties_.resize(tiles_);
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    const float* x = row_ + tile * kTile;
    const std::size_t length = tile_length(tile);
    std::size_t tied = 0;
    if (keys_[tile] >= order_key(value)) tied = passes_->count_at_least(x, length, value);
    if (keys_[tile] > order_key(value)) {
      tied -= passes_->count_at_least(x, length, next_above(value));
    }
    ties_[tile] = tied == 0 ? 0 : tied * weight_in_tile(tile, value);
  }
}

/// Weight v of one token of a value in a tile.
std::uint64_t IndexedRow::weight_in_tile(std::size_t tile, float value) const {
  const float maximum = from_order_key(keys_[tile]);
  std::uint64_t weight = 0;
  if (value <= maximum) weight = tile_passes_->sum(&value, 1, rule_, maximum, value);
  return weight;
}

/// Weight of the tokens at low_ that top_k did not keep.
uint128_t IndexedRow::weight_of_cut_ties() const {
  uint128_t weight = 0;
  for (std::size_t i = tie_end_; i < n_; ++i) {
    if (row_[i] != low_) continue;
    const std::size_t tile = i / kTile;
    weight += row_weight(weight_in_tile(tile, low_), shifts_[tile]);
  }
  return weight;
}

// --- Selection -----------------------------------------------------------------------------------

NearWeights IndexedRow::near_weights() const { return {passes_, tile_passes_, &rule_, max_}; }

/// Weighs the listed values >= low and returns their sum, for select_in_list.
uint128_t IndexedRow::weigh_list(float low) {
  if (is_near(low)) {
    std::vector<std::uint64_t>& weights = list_weights_.near;
    reserve_with_slack(weights, list_size_);
    const NearWeights near = near_weights();
    near.weigh(list_.data(), list_size_, low, weights.data());
    list_weight_ = near.sum(list_.data(), weights.data(), list_size_, low) << kRowBits;
    return list_weight_;
  }
  list_weights_.wide.clear();
  list_weight_ = 0;
  if (!has_keys_) {  // the list is a top set: it has the maximum of each of its tiles
    segments_.clear();
    prefix_.clear();
    segment_list(/*near=*/false, low);
    for (const Segment& segment : segments_) weigh_far(segment, low);
    return list_weight_;
  }
  for (std::size_t run = 0; run < list_runs_.size(); ++run) {
    const auto length = static_cast<std::uint32_t>(run_length(run));
    const float maximum = from_order_key(keys_[list_runs_[run].tile]);
    if (length != 0) weigh_far({list_runs_[run].begin, length, shift_of(maximum), maximum}, low);
  }
  return list_weight_;
}

/// Weighs the values >= low of a segment of the list, in the row's unit.
void IndexedRow::weigh_far(const Segment& segment, float low) {
  const float* values = list_.data() + segment.begin;
  std::uint64_t weights[kTile + kTileSlack];
  tile_passes_->weigh(values, segment.length, rule_, segment.maximum, low, weights);
  for (std::size_t i = 0; i < segment.length; ++i) {
    if (!(values[i] >= low)) continue;
    list_weights_.wide.push_back({values[i], row_weight(weights[i], segment.shift)});
    list_weight_ += list_weights_.wide.back().weight;
  }
}

/// The largest v in [low, high] such that the listed values >= v weigh at least `target`. The list
/// was weighed from `low` on.
float IndexedRow::select_in_list(float low, float high, uint128_t target) {
  if (!is_near(low)) return nucleus_end(list_weights_.wide, low, high, target);
  const uint128_t unit = uint128_t{1} << kRowBits;  // near weights are multiples of it
  return nucleus_end(near_weights(), list_.data(), list_weights_.near.data(), list_size_, low, high,
                     (target + (unit - 1)) >> kRowBits, list_weight_ >> kRowBits, scratch_);
}

/// Adds the bracket's survivors to what is above it, tile by tile.
void IndexedRow::add_bracket_to_tiles(const Bracket& bracket, float threshold) {
  has_survivor_sums_ = true;
  const bool near = !bracket.one_value() && is_near(bracket.low);
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    if (bracket.one_value()) {
      survivor_sums_[tile] += ties_[tile];
      continue;
    }
    const std::size_t begin = list_runs_[tile].begin;
    const std::size_t length = run_length(tile);
    if (length == 0) continue;
    const float* values = list_.data() + begin;
    // Near weights are of the list's weights, relative to the row's maximum.
    survivor_sums_[tile] +=
        near ? passes_->sum_listed(values, list_weights_.near.data() + begin, length, threshold)
                   << (kRowBits - shifts_[tile])
             : tile_passes_->sum(values, length, rule_, from_order_key(keys_[tile]), threshold);
  }
}

}  // namespace fairdraw::cpu
