// Filters a row: finds its status, and combines min_p, top_k and top_p (indexed_row.h).
#include "cpu/indexed_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/float_order.h"
#include "cpu/thresholds/min_p_threshold.h"

namespace fairdraw::cpu {
namespace {

constexpr float kLargestFinite = std::numeric_limits<float>::max();

/// Largest part of a row's groups that min_p may reach if the row draws by proposals before its
/// survivors are known. If a quarter of the groups reach the threshold and are evenly spread, nine
/// of ten tiles have such a group (1 - 0.75^8). Both the sum of the tokens that min_p keeps and the
/// sum of the tokens above a proposal must then read most of the row, so that finding the threshold
/// costs less.
constexpr double kFewGroups = 0.25;

/// Margin of a guessed rank, in standard deviations of the sample.
constexpr double kRankDeviations = 4.0;

}  // namespace

RowStatus IndexedRow::filter(const float* x, std::size_t n, const RowParameters& parameters,
                             const FilterOptions& options) {
  begin_row(x, n, parameters, options.from_probs);
  parameters_ = parameters;
  options_ = options;
  proposes_ =
      !is_greedy(parameters) &&
      proposes(top_k_is_on(parameters.top_k, static_cast<std::int64_t>(n)), parameters.top_p);
  has_proposals_ = has_survivors_ = false;
  return proposes_ && options.draws_alone ? index_for_proposals() : find_survivors();
}

RowStatus IndexedRow::index_for_proposals() {
  RowIndex& index = row_.index;
  return parameters_.min_p > 0.0F ? index.scan(index.smallest_allowed()) : index.build();
}

/// Returns the smallest value that min_p keeps.
float IndexedRow::min_p_low() const {
  const RowIndex& index = row_.index;
  const float lowest = index.smallest_allowed();
  if (!(parameters_.min_p > 0.0F)) return lowest;
  return std::max(lowest, min_p_threshold(parameters_.min_p, index.max, index.rule));
}

void IndexedRow::begin_proposals() {
  RowIndex& index = row_.index;
  const float low = min_p_low();
  const bool scanned = !index.has_sums && parameters_.min_p > 0.0F;
  if (scanned && index.find_hot_tiles(low) <= kFewGroups) {
    proposer_.begin_scanned(index, low, parameters_.top_p);
  } else {
    if (scanned && !has_survivors_) find_survivors();
    index.need_sums();
    proposer_.begin(index, low, parameters_.top_p);
  }
  if (has_survivors_) proposer_.know_threshold(row_.survivors.low());
  has_proposals_ = true;
}

std::int32_t IndexedRow::draw(const DrawWords& words) {
  if (chosen_token_ >= 0) return chosen_token_;
  if (!proposes_) return draw(words.of_attempt(0));
  if (!has_proposals_) begin_proposals();
  if (const auto token = proposer_.draw(row_.index, words)) return *token;
  if (!has_survivors_) find_survivors();
  proposer_.know_threshold(row_.survivors.low());
  return draw(words.of_survivors());
}

RowStatus IndexedRow::find_survivors() {
  const RowParameters& parameters = parameters_;
  const FilterOptions& options = options_;
  RowIndex& index = row_.index;
  TopSet& survivors = row_.survivors;
  const std::size_t n = index.size;
  const bool ties_of_largest = options.top_k_1_keeps_ties && parameters.top_k == 1;
  const bool greedy = is_greedy(parameters) && !ties_of_largest;
  const bool top_k = top_k_is_on(parameters.top_k, static_cast<std::int64_t>(n));
  const bool min_p = parameters.min_p > 0.0F;
  const bool top_p = parameters.top_p < 1.0F;
  has_survivors_ = true;
  if (!greedy && !top_k && !min_p) {
    if (!top_p) return index.build();
    if (!options.from_probs && n > kShortRow) return nucleus_.cut_unread(row_, parameters.top_p);
  }
  const RowStatus status = index.scan(survivors.low());
  if (status != RowStatus::ok) return status;

  if (greedy) {
    greedy_token_ = index.first_at_maximum();
    return RowStatus::ok;
  }
  if (min_p) survivors.keep_from(index, min_p_low());
  const float base = survivors.low();
  if (top_k) {
    apply_top_k(static_cast<std::size_t>(parameters.top_k), options.tie_rule);
  } else if (min_p && row_.list.collect(index, base, kLargestFinite, list_limit(n))) {
    survivors.use_list(row_.list, base);
  }
  if (top_p) nucleus_.cut(row_, parameters.top_p, options.filter_order, base);
  return RowStatus::ok;
}

void IndexedRow::begin_row(const float* x, std::size_t n, const RowParameters& parameters,
                           bool from_probs) {
  // In a row with temperature 0, log-probabilities are computed at temperature 1.
  const float temperature = parameters.temperature == 0.0F ? 1.0F : parameters.temperature;
  temperature_ = static_cast<double>(temperature);
  row_.index.begin(x, n, {from_probs, from_probs ? 1.0F : logit_scale(temperature)});
  row_.survivors.begin(row_.index);
  greedy_token_ = chosen_token_ = -1;
}

void IndexedRow::apply_top_k(std::size_t k, TieRule tie_rule) {
  RowIndex& index = row_.index;
  TopSet& survivors = row_.survivors;
  const float bound =
      bound_of_kth_largest(*index.passes, index.group_max.data(), index.blocks * kGroups,
                           survivors.low(), index.max, k, scratch_);
  const float list_from = std::max(survivors.low(), bound);
  if (bound == index.max) {  // at least k values equal the maximum, which may be too many for a
                             // list
    survivors.keep_from(index, index.max);
  } else if (row_.list.collect(index, list_from, kLargestFinite, list_limit(index.size))) {
    const ValueList& list = row_.list;
    survivors.keep_from(index, list.size() <= k
                                   ? list_from
                                   : kth_largest(*index.passes, list.values(), list.size(),
                                                 list_from, index.max, k, scratch_));
    survivors.use_list(list, list_from);
  } else {
    survivors.keep_from(index, kth_largest_of_row(k));
    survivors.use_row();
  }
  if (tie_rule == TieRule::lowest_id) {
    const float low = survivors.low();
    const std::size_t kept = survivors.count_at_least(index, row_.list, low);
    const std::size_t above = survivors.count_at_least(index, row_.list, next_above(low));
    if (kept > k) survivors.cut_ties(index, row_.list, k - above);
  }
}

/// Returns the k-th largest value of a row that has too many candidates for a list; if fewer than k
/// values reach the present threshold, returns this threshold.
float IndexedRow::kth_largest_of_row(std::size_t k) {
  RowIndex& index = row_.index;
  ValueList& list = row_.list;
  const float low = row_.survivors.low();
  float bracket_low = low;
  float bracket_high = index.max;
  if (index.size > kShortRow) {
    RowSample& sample = row_.sample;
    sample.take(index, low, index.max);
    const double rank = static_cast<double>(k) * static_cast<double>(sample.taken) /
                        static_cast<double>(index.size);
    const double margin = kRankDeviations * std::sqrt(rank) + 1.0;
    const auto sample_value = [&](double wanted, float otherwise) {
      if (wanted < 1.0 || wanted > static_cast<double>(sample.size)) return otherwise;
      return kth_largest(*index.passes, sample.values.data(), sample.size, low, index.max,
                         static_cast<std::size_t>(wanted), scratch_);
    };
    bracket_high = sample_value(rank - margin, index.max);
    bracket_low = sample_value(rank + margin, low);
  }
  std::size_t above = index.passes->count_at_least(index.x, index.size, next_above(bracket_high));
  if (above >= k) {  // the guessed bracket was too low
    bracket_low = next_above(bracket_high);
    bracket_high = index.max;
    above = 0;
  }
  list.collect(index, bracket_low, bracket_high, index.size);
  if (above + list.size() < k) {  // either the guessed bracket was too high, or `low` keeps fewer
                                  // than k values
    above += list.size();
    if (order_key(bracket_low) <= order_key(low)) return low;
    bracket_high = previous_below(bracket_low);
    bracket_low = low;
    list.collect(index, bracket_low, bracket_high, index.size);
    if (above + list.size() < k) return low;
  }
  return kth_largest(*index.passes, list.values(), list.size(), bracket_low, bracket_high,
                     k - above, scratch_);
}

}  // namespace fairdraw::cpu
