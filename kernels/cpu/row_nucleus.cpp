// top_p on one row: where the nucleus ends (row_sampler.h).
//
// The threshold is the largest value v whose mass W(>= v) reaches the target max(1, ceil(p W)).
// The total W needs every weight once. So that this one pass also finds v, a bracket of values is
// guessed before it, and the pass measures W, the mass above the bracket, and lists the bracket's
// values. If target lies between the mass above and that with the bracket, v is in the list.
//
// The guess: the head of the row (a hundred values or so, found through the group maxima as for
// top_k) is listed and weighed exactly, so that no sample has to catch the few values that may
// hold most of the mass. If the head is likely to hold the nucleus, it is the bracket. Else pieces
// spread over the row sample the rest into a histogram of weight over values; the bracket is
// kCpuBracketDeviations standard deviations of W(>= v) - p W wide to each side. Rows with heavy
// ties get a bracket of one value, which needs counting, not listing.
//
// A wrong guess is found out by the exact sums and costs a pass over the side that it missed.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/exp2fix.h"
#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cpu/row_sampler.h"

namespace fairdraw::cpu {
namespace {

constexpr float kLargestFinite = std::numeric_limits<float>::max();

/// Half the width of a guessed bracket in standard deviations: a miss in some 400 rows, at the
/// cost of about one more pass, against a list that is a quarter shorter than with 4.
constexpr double kCpuBracketDeviations = 3.0;
/// The head: so many group maxima, and at most so many values.
constexpr std::size_t kHeadSize = 128;
constexpr std::size_t kHeadLimit = 16 * kHeadSize;
/// The sample of the tail: pieces of consecutive values, spread evenly. A small row has a small
/// sample: looking at it costs as much as the longer list that a wider bracket brings.
constexpr std::size_t kPieceSize = 32;
constexpr std::size_t pieces_of(std::size_t n) { return n < (1U << 16U) ? 32 : 64; }
static_assert(kPieceSize <= kShortRow);
constexpr std::size_t kBins = 256;
/// Further below the maximum, in octaves, weights are nearly 0.
constexpr float kOctaves = 41;
/// A bracket that holds more than this share of the row is dense: every other vector of sixteen has
/// such a value, and a branch on it would be mispredicted.
constexpr double kDenseShare = 1.0 / 32;
/// A bracket that holds more than this share may be one value with its ties.
constexpr double kTieShare = 1.0 / 16;

/// Weight, variance of its estimate, and number of values, by bin of the value.
struct Histogram {
  std::array<double, kBins> weight{}, square{}, count{};
};

}  // namespace

void RowSampler::apply_top_p(float top_p, FilterOrder filter_order, float base) {
  if (low_ >= max_) return;  // only ties of the maximum are left: every nucleus holds them
  if (on_list_) {
    cut_list_to_nucleus(top_p, filter_order, base);
  } else {
    cut_row_to_nucleus(top_p, filter_order, base);
  }
}

void RowSampler::cut_list_to_nucleus(float top_p, FilterOrder filter_order, float base) {
  const bool joint = filter_order == FilterOrder::joint;
  const std::uint64_t mass = joint ? sum_of_row(base) : survivors_sum(0, list_size_);
  const std::uint64_t target = nucleus_target(top_p, mass);
  // Jointly, what top_k keeps may hold less than the nucleus needs: then all of it stays.
  if (joint && passes_->sum(list_.data(), list_size_, rule_, low_) < target) return;
  const float threshold =
      select_threshold(list_.data(), list_size_, {passes_, &rule_}, low_, max_, target, scratch_);
  if (threshold > low_) {
    low_ = threshold;
    tie_end_ = n_;
    tie_end_in_domain_ = list_size_;
  } else if (!joint) {
    total_ = mass;
  }
}

/// Lists and weighs the head; its lowest value is head.low. Empty where ties make it too long.
RowSampler::Head RowSampler::weigh_head(float base) {
  const std::size_t groups = blocks_ * kGroups;
  const float low = bound_of_kth_largest(group_max_.data(), groups, *passes_,
                                         std::min(kHeadSize, groups / 4), base, max_);
  const bool reached = low >= base && collect_list(low, kLargestFinite, kHeadLimit);
  if (!reached) return {next_above(max_), 0};
  return {low, static_cast<double>(passes_->sum(list_.data(), list_size_, rule_, base))};
}

/// Spreads pieces over the row and lists their values in [low, high].
void RowSampler::take_sample(float low, float high) {
  const std::size_t pieces = pieces_of(n_);
  reserve_with_slack(sample_, pieces * kPieceSize);
  sample_size_ = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t begin = (n_ - kPieceSize) * piece / (pieces - 1);
    sample_size_ +=
        passes_->collect(row_ + begin, kPieceSize, low, high, sample_.data() + sample_size_);
  }
  sample_taken_ = pieces * kPieceSize;
}

/// Estimate of the sum of squared weights of the sample, in units of 2^80.
double RowSampler::sample_squares(float base) const {
  WeightRule squared = rule_;
  squared.scale *= 2;  // the square of 2^y is 2^(2y)
  // Of probabilities the rule cannot make squares: a weight times the largest one, 2^40, is at
  // least its square, and makes a wider bracket than needed.
  const std::uint64_t sum =
      passes_->sum(sample_.data(), sample_size_, from_probs_ ? rule_ : squared, base);
  return static_cast<double>(sum) * static_cast<double>(kLargestWeight);
}

RowSampler::Bracket RowSampler::guess_nucleus(float top_p, float base) {
  if (n_ <= kShortRow) return {base, max_, BracketKind::dense};
  const Head head = weigh_head(base);
  take_sample(base, previous_below(head.low));
  const double p = static_cast<double>(top_p);
  const double times = static_cast<double>(n_) / static_cast<double>(sample_taken_);
  const auto tail =
      static_cast<double>(passes_->sum(sample_.data(), sample_size_, rule_, base)) * times;
  const double target = p * (head.weight + tail);
  // What is decided is W(>= v) - p W: values above v count 1 - p in it, the others -p. For a v at
  // the head's end every sampled value counts p.
  const double head_margin = kCpuBracketDeviations * times * p * std::sqrt(sample_squares(base));
  if (head.weight > target + head_margin) return {head.low, max_, BracketKind::listed};
  return guess_in_tail(p, base, head, target, times);
}

/// The bracket for a nucleus that ends below the head.
RowSampler::Bracket RowSampler::guess_in_tail(double p, float base, const Head& head, double target,
                                              double times) {
  if (sample_size_ == 0) return {base, max_, BracketKind::dense};
  if (block_weights_.size() < sample_size_) block_weights_.resize(sample_size_);
  passes_->weigh(sample_.data(), sample_size_, rule_, base, block_weights_.data());
  // Bins are linear in the value; the sample's own range leaves out what weighs nothing.
  const Range range = passes_->range(sample_.data(), sample_size_);
  const auto origin = static_cast<double>(std::max(range.min, value_of_octave(-kOctaves)));
  const double width = static_cast<double>(range.max) - origin;
  const double per_unit = width > 0 ? static_cast<double>(kBins) / width : 0;
  Histogram histogram;
  for (std::size_t i = 0; i < sample_size_; ++i) {
    const double place = (static_cast<double>(sample_[i]) - origin) * per_unit;
    const auto bin =
        static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)));
    const double weight = times * static_cast<double>(static_cast<std::int64_t>(block_weights_[i]));
    histogram.weight[bin] += weight;
    histogram.square[bin] += weight * weight;
    histogram.count[bin] += times;
  }
  double variance = 0;
  double mass = head.weight;
  for (std::size_t bin = kBins; bin-- > 0; mass += histogram.weight[bin]) {
    const double share = mass < target ? 1 - p : p;
    variance += share * share * histogram.square[bin];
  }
  const double margin = kCpuBracketDeviations * std::sqrt(variance);

  std::size_t end = kBins;  // the bracket's bins are [begin, end)
  mass = head.weight;
  while (end > 0 && mass + histogram.weight[end - 1] < target - margin) {
    mass += histogram.weight[--end];
  }
  std::size_t begin = end;
  double inside = 0;
  while (begin > 0 && mass < target + margin) {
    --begin;
    mass += histogram.weight[begin];
    inside += histogram.count[begin];
  }
  const auto edge = [&](std::size_t bin) {
    return static_cast<float>(origin + static_cast<double>(bin) / std::max(per_unit, 1e-300));
  };
  const bool reaches_head = end == kBins && head.weight >= target - margin;
  const float high = reaches_head ? max_ : end == kBins ? range.max : edge(end);
  const float low = begin == 0 ? base : edge(begin);
  const auto row_size = static_cast<double>(n_);
  if (inside > kTieShare * row_size) {
    reserve_with_slack(known_values_, sample_size_);
    const std::size_t count =
        passes_->collect(sample_.data(), sample_size_, low, high, known_values_.data());
    const Range known = count == 0 ? Range{low, high} : passes_->range(known_values_.data(), count);
    if (known.min == known.max) return {known.min, known.max, BracketKind::one_value};
  }
  return {std::min(low, high), high,
          inside > kDenseShare * row_size ? BracketKind::dense : BracketKind::sparse};
}

/// The value so many octaves of weight away from the maximum.
float RowSampler::value_of_octave(float octave) const {
  return from_probs_ ? std::ldexp(max_, static_cast<int>(octave)) : max_ + octave / rule_.scale;
}

void RowSampler::cut_row_to_nucleus(float top_p, FilterOrder filter_order, float base) {
  const bool joint = filter_order == FilterOrder::joint;
  const Measure weight{passes_, &rule_};
  // What the nucleus is measured on: everything from `base` up, or the survivors of top_k.
  const float from = joint ? base : low_;
  const Bracket guess = guess_nucleus(top_p, from);
  const MeasuredBracket measured = measure_bracket(guess, from, joint ? n_ : tie_end_);
  const std::uint64_t target = nucleus_target(top_p, measured.total);
  if (from == smallest_allowed() && (joint || !ties_are_cut())) unfiltered_ = measured.total;

  float threshold = guess.low;
  bool list_is_the_top = !guess.one_value() && guess.high == max_;
  bool guess_holds = false;
  list_low_ = guess.low;
  if (measured.above >= target) {  // the guess was too low
    const float low = next_above(guess.high);
    collect_list(low, kLargestFinite, n_);
    list_low_ = low;
    list_is_the_top = true;
    threshold = select_threshold(list_.data(), list_size_, weight, low, max_, target, scratch_);
  } else if (measured.above + measured.inside < target && guess.low > from) {  // too high
    const float high = previous_below(guess.low);
    collect_list(from, high, n_);
    list_is_the_top = false;
    threshold = select_threshold(list_.data(), list_size_, weight, from, high,
                                 target - measured.above - measured.inside, scratch_);
  } else {
    guess_holds = true;
    if (!guess.one_value()) {
      threshold = select_threshold(list_.data(), list_size_, weight, guess.low, guess.high,
                                   target - measured.above, scratch_);
    }
  }
  if (threshold <= low_) {  // nothing is cut; ties that top_k cut stay cut
    if (!joint) total_ = measured.total;
    return;
  }
  low_ = threshold;
  tie_end_ = n_;
  if (list_is_the_top) {
    use_list(list_low_);
  } else {
    use_row();
    if (guess_holds) build_prefix(threshold, measured.weight_of_tie);
  }
}

/// One pass: the weight of the values >= from (before tie_end; > from after it), and of those
/// above the bracket; lists the bracket's values, or counts them where they are all equal.
RowSampler::MeasuredBracket RowSampler::measure_bracket(const Bracket& bracket, float from,
                                                        std::size_t tie_end) {
  MeasuredBracket measured{};
  above_by_block_.clear();
  ties_by_block_.clear();
  if (bracket.kind == BracketKind::listed) {  // up to the maximum: only the total is missing
    for (std::size_t begin = 0; begin < n_; begin += kBlock) {
      const std::size_t length = std::min(kBlock, n_ - begin);
      const std::size_t with_ties = std::clamp(tie_end, begin, begin + length) - begin;
      const float* x = row_ + begin;
      measured.total += passes_->sum(x, with_ties, rule_, from);
      if (with_ties < length) {
        measured.total += passes_->sum(x + with_ties, length - with_ties, rule_, next_above(from));
      }
    }
  } else {
    list_and_measure(bracket, from, tie_end, measured);
  }
  if (bracket.one_value()) {
    passes_->weigh(&bracket.low, 1, rule_, from, &measured.weight_of_tie);
    for (const std::uint32_t ties : ties_by_block_) {
      measured.inside += ties * measured.weight_of_tie;
    }
  } else {
    measured.inside = passes_->sum(list_.data(), list_size_, rule_, bracket.low);
  }
  return measured;
}

void RowSampler::list_and_measure(const Bracket& bracket, float from, std::size_t tie_end,
                                  MeasuredBracket& measured) {
  list_runs_.clear();
  list_size_ = 0;
  reserve_with_slack(list_, (bracket.one_value() ? 0 : n_) + kBlock);
  // A bracket of one value lists nothing: its low end is put out of reach.
  const float low = bracket.one_value() ? std::numeric_limits<float>::infinity() : bracket.low;
  const bool dense = bracket.kind == BracketKind::dense;
  for (std::size_t begin = 0; begin < n_; begin += kBlock) {
    const float* x = row_ + begin;
    const std::size_t length = std::min(kBlock, n_ - begin);
    const std::size_t with_ties = std::clamp(tie_end, begin, begin + length) - begin;
    list_runs_.push_back({begin, list_size_});
    std::uint64_t above = 0;
    const auto measure = [&](const float* values, std::size_t n, float lowest) {
      const BracketSums sums = passes_->measure(values, n, rule_, lowest, low, bracket.high, dense,
                                                list_.data() + list_size_);
      measured.total += sums.total;
      above += sums.above;
      list_size_ += sums.inside;
    };
    measure(x, with_ties, from);
    if (with_ties < length) measure(x + with_ties, length - with_ties, next_above(from));
    measured.above += above;
    above_by_block_.push_back(above);
    if (bracket.one_value()) {
      std::size_t tied = passes_->count_at_least(x, length, bracket.low);
      if (bracket.high < max_) {
        tied -= passes_->count_at_least(x, length, next_above(bracket.low));
      }
      ties_by_block_.push_back(static_cast<std::uint32_t>(tied));
    }
  }
}

/// Prefix sums of the row's survivors from what measure_bracket kept: no pass over the row.
void RowSampler::build_prefix(float threshold, std::uint64_t weight_of_tie) {
  const bool one_value = !ties_by_block_.empty();
  if (!one_value) {
    if (block_weights_.size() < list_size_) block_weights_.resize(list_size_);
    passes_->weigh(list_.data(), list_size_, rule_, threshold, block_weights_.data());
  }
  std::uint64_t before = 0;
  for (std::size_t b = 0; b < blocks_; ++b) {
    before += above_by_block_[b];
    if (one_value) {
      before += ties_by_block_[b] * weight_of_tie;
    } else {
      const std::size_t end = b + 1 < blocks_ ? list_runs_[b + 1].list_begin : list_size_;
      for (std::size_t i = list_runs_[b].list_begin; i < end; ++i) before += block_weights_[i];
    }
    prefix_.push_back(before);
  }
  total_ = before;
}

}  // namespace fairdraw::cpu
