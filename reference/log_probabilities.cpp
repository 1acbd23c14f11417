#include "reference/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace fairdraw::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr double kLn2 = 0.69314718055994530942;

// Neumaier's sum.
class CompensatedSum {
 public:
  void add(long double term) {
    const long double sum = sum_ + term;
    const bool larger = std::fabs(sum_) >= std::fabs(term);
    rest_ += larger ? (sum_ - sum) + term : (term - sum) + sum_;
    sum_ = sum;
  }
  long double value() const { return sum_ + rest_; }

 private:
  long double sum_ = 0, rest_ = 0;
};

// Sets the values and error bounds of the log-probabilities of the tokens in `order`.
void set_logprobs(RealLogprobs& row, double temperature, const WeightBound& weight_bound) {
  const auto logit = [&row](std::int32_t token) {
    return static_cast<long double>(row.logits[static_cast<std::size_t>(token)]);
  };
  const long double largest = logit(row.order.front());
  CompensatedSum sum;
  std::vector<long double> weight;
  for (const std::int32_t token : row.order) {
    weight.push_back(std::exp((logit(token) - largest) / temperature));
    sum.add(weight.back());
  }
  // This is the relative error of a sampler's sum: each term is off by its own bound, but at most
  // by the term itself.
  CompensatedSum error;
  for (std::size_t i = 0; i < row.order.size(); ++i) {
    const long double distance = (logit(row.order[i]) - largest) / temperature;
    const double octaves = static_cast<double>(-distance) / kLn2;
    error.add(weight[i] / sum.value() * std::min(1.0, weight_bound.at(octaves)));
  }
  // The sum is measured in units of the largest weight, which has an error of its own: both errors
  // are added.
  const double of_sum =
      -std::log1p(-static_cast<double>(error.value())) - std::log1p(-weight_bound.at(0));
  const long double log_of_sum = std::log(sum.value());
  for (const std::int32_t token : row.order) {
    const auto at = static_cast<std::size_t>(token);
    const long double value = (logit(token) - largest) / temperature - log_of_sum;
    row.value[at] = static_cast<double>(
        std::max(value, -static_cast<long double>(std::numeric_limits<float>::max())));
    row.bound[at] = of_sum + (0x1p-24 + 0x1p-50) * std::fabs(row.value[at]) + 0x1p-47;
  }
}

}  // namespace

std::int32_t RealLogprobs::rank(std::int32_t token, RankRule rule) const {
  const auto found = std::find(order.begin(), order.end(), token);
  if (found == order.end()) return 0;
  if (rule == RankRule::position) return static_cast<std::int32_t>(found - order.begin()) + 1;
  const float own = logits[static_cast<std::size_t>(token)];
  return static_cast<std::int32_t>(std::count_if(
      order.begin(), order.end(),
      [this, own](std::int32_t other) { return logits[static_cast<std::size_t>(other)] >= own; }));
}

RealLogprobs real_log_probabilities(std::span<const float> logits,
                                    std::span<const std::uint8_t> kept, LogprobsMode mode,
                                    float temperature, const WeightBound& bound) {
  RealLogprobs row;
  row.logits.assign(logits.begin(), logits.end());
  row.value.assign(logits.size(), -std::numeric_limits<double>::infinity());
  row.bound.assign(logits.size(), 0);
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const bool counts = logits[token] != -kInfinity && (kept.empty() || kept[token] != 0);
    if (counts) row.order.push_back(static_cast<std::int32_t>(token));
  }
  if (row.order.empty()) return row;
  std::stable_sort(row.order.begin(), row.order.end(), [&logits](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  const bool raw = mode == LogprobsMode::raw_logits || mode == LogprobsMode::raw_logprobs;
  const float divisor = raw || temperature == 0 ? 1.0F : temperature;
  if (mode == LogprobsMode::raw_logprobs || mode == LogprobsMode::processed_logprobs) {
    set_logprobs(row, static_cast<double>(divisor), bound);
    return row;
  }
  for (const std::int32_t token : row.order) {
    const auto at = static_cast<std::size_t>(token);
    row.value[at] = static_cast<double>(std::clamp(logits[at] / divisor, -kLargest, kLargest));
  }
  return row;
}

}  // namespace fairdraw::reference
