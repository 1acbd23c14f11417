#include "cpu/row_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/exp2fix.h"
#include "common/float_order.h"
#include "common/min_p.h"
#include "common/wide_integers.h"

namespace fairdraw::cpu {
namespace {

constexpr float kLargestFinite = std::numeric_limits<float>::max();

/// How far a guessed rank may be off, in standard deviations of the sample.
constexpr double kRankDeviations = 4.0;

/// A list pays while it is shorter than this part of the row.
std::size_t list_limit(std::size_t n) { return std::max(kShortRow, n / 4); }

}  // namespace

RowStatus RowSampler::filter(const float* x, std::size_t n, const RowParameters& parameters,
                             const FilterOptions& options) {
  row_ = x;
  n_ = n;
  blocks_ = (n + kBlock - 1) / kBlock;
  from_probs_ = options.from_probs;
  greedy_token_ = -1;
  total_ = unfiltered_ = 0;
  use_row();

  if (group_max_.size() < blocks_ * kGroups) group_max_.resize(blocks_ * kGroups);
  const RowScan found = passes_->scan(x, n, group_max_.data());
  max_ = found.max;
  if (found.has_nan) return RowStatus::nan_input;
  if (max_ > kLargestFinite) return RowStatus::infinite_input;
  if (from_probs_ && passes_->count_at_least(x, n, 0.0F) != n) {
    return RowStatus::negative_probability;
  }
  low_ = smallest_allowed();
  tie_end_ = tie_end_in_domain_ = n;
  if (!(max_ >= low_)) return RowStatus::no_allowed_token;
  set_weight_rule(parameters);

  const bool ties_of_largest = options.top_k_1_keeps_ties && parameters.top_k == 1;
  if (is_greedy(parameters) && !ties_of_largest) {
    greedy_token_ = first_at_maximum();
    return RowStatus::ok;
  }
  if (parameters.min_p > 0.0F) low_ = std::max(low_, min_p_threshold(parameters.min_p));
  const float base = low_;
  if (top_k_is_on(parameters.top_k, static_cast<std::int64_t>(n))) {
    apply_top_k(static_cast<std::size_t>(parameters.top_k), options.tie_rule);
  } else if (parameters.min_p > 0.0F && collect_list(low_, kLargestFinite, list_limit(n))) {
    use_list(low_);
  }
  if (parameters.top_p < 1.0F) apply_top_p(parameters.top_p, options.filter_order, base);
  return RowStatus::ok;
}

void RowSampler::set_weight_rule(const RowParameters& parameters) {
  rule_ = WeightRule{};
  rule_.from_probs = from_probs_;
  if (from_probs_) {
    // Two powers of two, because their product may exceed the exponent range: together they
    // bring the maximum into [2^39, 2^40).
    int exponent = 0;
    std::frexp(max_, &exponent);  // max in [2^(exponent - 1), 2^exponent)
    const int shift = kWeightBits - exponent;
    const int first = std::clamp(shift, -126, 126);
    rule_.scale = std::ldexp(1.0F, first);
    rule_.scale2 = std::ldexp(1.0F, shift - first);
  } else {
    // Log-probabilities of a greedy row with temperature 0 are those at temperature 1.
    const float temperature = parameters.temperature == 0.0F ? 1.0F : parameters.temperature;
    temperature_ = static_cast<double>(temperature);
    rule_.shift = max_;
    rule_.scale = logit_scale(temperature);
  }
}

float RowSampler::smallest_allowed() const {
  return from_probs_ ? std::numeric_limits<float>::denorm_min() : -kLargestFinite;
}

/// The smallest float that min_p keeps.
float RowSampler::min_p_threshold(float min_p) const {
  if (from_probs_) {
    // 24 by 24 bits: the product is exact in double.
    const double exact = static_cast<double>(min_p) * static_cast<double>(max_);
    const auto nearest = static_cast<float>(exact);
    return static_cast<double>(nearest) < exact ? next_above(nearest) : nearest;
  }
  // y does not fall as x grows, so the values that are kept are those above one float.
  const float octaves = min_p_octaves(min_p);
  std::int64_t below = std::int64_t{order_key(-kLargestFinite)} - 1;
  std::int64_t kept = order_key(max_);
  while (kept - below > 1) {
    const std::int64_t middle = (below + kept) >> 1;
    const float x = from_order_key(static_cast<std::int32_t>(middle));
    const float y = (x - rule_.shift) * rule_.scale;
    (y >= octaves ? kept : below) = middle;
  }
  return from_order_key(static_cast<std::int32_t>(kept));
}

std::int32_t RowSampler::first_at_maximum() {
  if (hot_blocks_.size() < blocks_) hot_blocks_.resize(blocks_);
  passes_->blocks_at_least(group_max_.data(), blocks_, max_, hot_blocks_.data());
  const float* begin = row_ + hot_blocks_[0] * kBlock;
  return static_cast<std::int32_t>(std::find(begin, row_ + n_, max_) - row_);
}

/// Lists the values in [low, high]. False, and no list, when there are more than `limit`.
bool RowSampler::collect_list(float low, float high, std::size_t limit) {
  if (hot_blocks_.size() < blocks_) hot_blocks_.resize(blocks_);
  const std::size_t hot =
      passes_->blocks_at_least(group_max_.data(), blocks_, low, hot_blocks_.data());
  reserve_with_slack(list_, std::min(limit, n_) + kBlock);
  list_runs_.clear();
  list_size_ = 0;
  for (std::size_t i = 0; i < hot; ++i) {
    const std::size_t begin = hot_blocks_[i] * kBlock;
    list_runs_.push_back({begin, list_size_});
    list_size_ += passes_->collect(row_ + begin, std::min(kBlock, n_ - begin), low, high,
                                   list_.data() + list_size_);
    if (list_size_ > limit) return false;
  }
  return true;
}

void RowSampler::use_list(float low) {
  on_list_ = true;
  list_low_ = low;
  tie_end_in_domain_ = list_size_;
  prefix_.clear();
}

void RowSampler::use_row() {
  on_list_ = false;
  tie_end_in_domain_ = tie_end_;
  prefix_.clear();
}

// --- top_k -------------------------------------------------------------------------------------

void RowSampler::apply_top_k(std::size_t k, TieRule tie_rule) {
  const float bound =
      bound_of_kth_largest(group_max_.data(), blocks_ * kGroups, *passes_, k, low_, max_);
  const float list_from = std::max(low_, bound);
  if (bound == max_) {  // k values share the maximum: too many to list, perhaps
    low_ = max_;
  } else if (collect_list(list_from, kLargestFinite, list_limit(n_))) {
    low_ = list_size_ <= k ? list_from
                           : select_threshold(list_.data(), list_size_, {passes_, nullptr},
                                              list_from, max_, k, scratch_);
    use_list(list_from);
  } else {
    low_ = kth_largest_of_row(k);
    use_row();
  }
  if (tie_rule == TieRule::lowest_id) {
    const std::size_t kept = passes_->count_at_least(domain(), domain_size(), low_);
    const std::size_t above = passes_->count_at_least(domain(), domain_size(), next_above(low_));
    if (kept > k) cut_ties(k - above);
  }
}

/// The k-th largest value of a row whose candidates are too many to list; low_ when fewer than k
/// values reach it.
float RowSampler::kth_largest_of_row(std::size_t k) {
  const Measure count{passes_, nullptr};
  float bracket_low = low_;
  float bracket_high = max_;
  if (n_ > kShortRow) {
    take_sample(low_, max_);
    const double rank =
        static_cast<double>(k) * static_cast<double>(sample_taken_) / static_cast<double>(n_);
    const double margin = kRankDeviations * std::sqrt(rank) + 1.0;
    const auto sample_value = [&](double wanted, float otherwise) {
      if (wanted < 1.0 || wanted > static_cast<double>(sample_size_)) return otherwise;
      return select_threshold(sample_.data(), sample_size_, count, low_, max_,
                              static_cast<std::uint64_t>(wanted), scratch_);
    };
    bracket_high = sample_value(rank - margin, max_);
    bracket_low = sample_value(rank + margin, low_);
  }
  std::size_t above = passes_->count_at_least(row_, n_, next_above(bracket_high));
  if (above >= k) {  // the guess was too low
    bracket_low = next_above(bracket_high);
    bracket_high = max_;
    above = 0;
  }
  collect_list(bracket_low, bracket_high, n_);
  if (above + list_size_ < k) {  // the guess was too high, or there are not that many
    above += list_size_;
    if (order_key(bracket_low) <= order_key(low_)) return low_;
    bracket_high = previous_below(bracket_low);
    bracket_low = low_;
    collect_list(bracket_low, bracket_high, n_);
    if (above + list_size_ < k) return low_;
  }
  return select_threshold(list_.data(), list_size_, count, bracket_low, bracket_high, k - above,
                          scratch_);
}

/// Of the values equal to low_, only the first `ties_kept` stay (at least one).
void RowSampler::cut_ties(std::size_t ties_kept) {
  const float* values = domain();
  std::size_t position = 0;
  for (std::size_t seen = 0; seen < ties_kept; ++position) seen += values[position] == low_ ? 1 : 0;
  tie_end_in_domain_ = position;
  tie_end_ = row_position(position - 1) + 1;
}

// --- Sums and draws ----------------------------------------------------------------------------

std::uint64_t RowSampler::sum_of_row(float low) const { return passes_->sum(row_, n_, rule_, low); }

/// Weight of the survivors at positions [begin, begin + n) of the domain.
std::uint64_t RowSampler::survivors_sum(std::size_t begin, std::size_t n) const {
  const float* x = domain() + begin;
  const std::size_t with_ties = std::clamp(tie_end_in_domain_, begin, begin + n) - begin;
  std::uint64_t sum = passes_->sum(x, with_ties, rule_, low_);
  if (with_ties < n) sum += passes_->sum(x + with_ties, n - with_ties, rule_, next_above(low_));
  return sum;
}

void RowSampler::weigh_survivors(std::size_t begin, std::size_t n) {
  if (block_weights_.size() < n) block_weights_.resize(n);
  const float* x = domain() + begin;
  const std::size_t with_ties = std::clamp(tie_end_in_domain_, begin, begin + n) - begin;
  passes_->weigh(x, with_ties, rule_, low_, block_weights_.data());
  passes_->weigh(x + with_ties, n - with_ties, rule_, next_above(low_),
                 block_weights_.data() + with_ties);
}

void RowSampler::extend_prefix() {
  const std::size_t begin = prefix_.size() * kBlock;
  const std::uint64_t before = prefix_.empty() ? 0 : prefix_.back();
  prefix_.push_back(before + survivors_sum(begin, std::min(kBlock, domain_size() - begin)));
}

std::int32_t RowSampler::draw(std::uint64_t word) {
  if (greedy_token_ >= 0) return greedy_token_;
  const std::size_t domain_blocks = (domain_size() + kBlock - 1) / kBlock;
  if (total_ == 0) {
    while (prefix_.size() < domain_blocks) extend_prefix();
    total_ = prefix_.back();
  }
  const std::uint64_t t = multiply_high(word, total_);
  while (prefix_.empty() || prefix_.back() <= t) extend_prefix();
  const auto found = std::upper_bound(prefix_.begin(), prefix_.end(), t);
  const auto block = static_cast<std::size_t>(found - prefix_.begin());
  std::uint64_t before = block == 0 ? 0 : prefix_[block - 1];
  const std::size_t begin = block * kBlock;
  weigh_survivors(begin, std::min(kBlock, domain_size() - begin));
  std::size_t position = 0;
  while (before + block_weights_[position] <= t) before += block_weights_[position++];
  return static_cast<std::int32_t>(row_position(begin + position));
}

/// Position in the row of a position of the domain.
std::size_t RowSampler::row_position(std::size_t domain_position) const {
  if (!on_list_) return domain_position;
  const auto after = std::upper_bound(
      list_runs_.begin(), list_runs_.end(), domain_position,
      [](std::size_t position, const ListRun& run) { return position < run.list_begin; });
  const ListRun& run = *std::prev(after);
  std::size_t position = run.row_begin;
  for (std::size_t skip = domain_position - run.list_begin;; ++position) {
    if (row_[position] >= list_low_ && skip-- == 0) return position;
  }
}

// --- Outputs -----------------------------------------------------------------------------------

bool RowSampler::keeps(std::int32_t token) const {
  if (greedy_token_ >= 0) return token == greedy_token_;
  const auto position = static_cast<std::size_t>(token);
  return row_[position] > low_ || (row_[position] == low_ && position < tie_end_);
}

std::int64_t RowSampler::support_size() const {
  if (greedy_token_ >= 0) return 1;
  const float* x = domain();
  return static_cast<std::int64_t>(passes_->count_at_least(x, tie_end_in_domain_, low_) +
                                   passes_->count_at_least(x + tie_end_in_domain_,
                                                           domain_size() - tie_end_in_domain_,
                                                           next_above(low_)));
}

void RowSampler::write_mask(std::uint32_t* words) const {
  if (greedy_token_ >= 0) {
    std::fill_n(words, (n_ + 31) / 32, 0U);
    words[greedy_token_ / 32] = 1U << (greedy_token_ % 32);
    return;
  }
  passes_->mask_bits(row_, n_, low_, words);
  for (std::size_t i = tie_end_; i < n_; ++i) {
    if (row_[i] == low_) words[i / 32] &= ~(1U << (i % 32));
  }
}

void RowSampler::write_probabilities(float* probabilities) const {
  if (greedy_token_ >= 0) {
    std::fill_n(probabilities, n_, 0.0F);
    probabilities[greedy_token_] = 1.0F;
    return;
  }
  const auto total = static_cast<double>(survivors_weight());
  passes_->probabilities(row_, n_, rule_, low_, total, probabilities);
  for (std::size_t i = tie_end_; i < n_; ++i) {
    if (row_[i] == low_) probabilities[i] = 0.0F;
  }
}

std::uint64_t RowSampler::write_weights(std::uint64_t* weights) const {
  passes_->weigh(row_, n_, rule_, low_, weights);
  for (std::size_t i = tie_end_; i < n_; ++i) {
    if (row_[i] == low_) weights[i] = 0;
  }
  return std::accumulate(weights, weights + n_, std::uint64_t{0});
}

float RowSampler::logprob(std::int32_t token) {
  return static_cast<float>(
      log_probability(row_[token], max_, temperature_, log_mass_of(unfiltered_weight())));
}

float RowSampler::logprob_filtered(std::int32_t token) const {
  if (greedy_token_ >= 0) return 0.0F;
  return static_cast<float>(std::min(
      0.0, log_probability(row_[token], max_, temperature_, log_mass_of(survivors_weight()))));
}

std::uint64_t RowSampler::unfiltered_weight() {
  if (unfiltered_ != 0) return unfiltered_;
  const bool all_survive = greedy_token_ < 0 && low_ == smallest_allowed() && !ties_are_cut();
  unfiltered_ = all_survive && total_ != 0 ? total_ : sum_of_row(smallest_allowed());
  return unfiltered_;
}

std::uint64_t RowSampler::survivors_weight() const {
  if (greedy_token_ >= 0) return kLargestWeight;
  return total_ != 0 ? total_ : survivors_sum(0, domain_size());
}

ScannedRow RowSampler::unfiltered_row() const {
  ScannedRow row;
  row.x = row_;
  row.n = n_;
  row.group_max = group_max_.data();
  row.max = max_;
  row.low = smallest_allowed();
  row.tie_end = n_;
  if (on_list_) {
    row.list = list_.data();
    row.list_size = list_size_;
    row.list_low = list_low_;
  }
  return row;
}

ScannedRow RowSampler::survivors_row() const {
  ScannedRow row = unfiltered_row();
  row.low = greedy_token_ >= 0 ? max_ : low_;
  row.tie_end = greedy_token_ >= 0 ? static_cast<std::size_t>(greedy_token_) + 1 : tie_end_;
  return row;
}

}  // namespace fairdraw::cpu
