#include "harness/statistics/pit.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <stdexcept>

#include "harness/statistics/argument.h"
#include "harness/statistics/binomial.h"
#include "harness/statistics/compensated_sum.h"
#include "harness/statistics/distribution_function.h"
#include "harness/statistics/policy.h"

namespace fairdraw::statistics {
namespace {

// Returns v in (0, 1). The top 52 bits of the word plus one half have 53 bits, which a double
// represents exactly.
double uniform_from(std::uint64_t word) {
  return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
}

template <class Sum>
double transform(std::span<const Sum> prefix, std::int64_t token, std::uint64_t random_word) {
  if (token < 0 || static_cast<std::uint64_t>(token) >= prefix.size()) {
    throw std::invalid_argument(
        fmt::format("token is {}; it must be in [0, {})", token, prefix.size()));
  }
  const auto at = static_cast<std::size_t>(token);
  const Sum below = at == 0 ? Sum{0} : prefix[at - 1];
  const Sum upto = prefix[at];
  const Sum total = prefix.back();
  const bool ascends = below >= Sum{0} && upto >= below && total >= upto && total > Sum{0};
  const double scale = static_cast<double>(total);
  if (!ascends || !std::isfinite(scale)) {
    throw std::invalid_argument(
        fmt::format("prefix is {}, {} at token {} and ends with {}; it must ascend from 0 to a "
                    "positive, finite end",
                    below, upto, token, total));
  }
  const double width = static_cast<double>(upto - below);
  return std::min(1.0, (static_cast<double>(below) + uniform_from(random_word) * width) / scale);
}

double normal_score(double u) {
  // Normal quantiles are infinite at 0 and 1. The value of a right sampler is this close to an end
  // once in 2^52 draws.
  const double inside = std::clamp(u, 0x1p-53, 1 - 0x1p-53);
  return quantile(boost::math::normal_distribution<double, Policy>(), inside);
}

struct Correlation {
  double products = 0;  ///< sum of z1 z2
  double squares = 0;   ///< sum of z1^2
};

Correlation correlate(std::span<const double> first, std::span<const double> second) {
  CompensatedSum products, squares;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double score = normal_score(first[i]);
    products.add(score * normal_score(second[i]));
    squares.add(score * score);
  }
  return {products.value(), squares.value()};
}

void require_stream(std::string_view field, std::span<const double> values) {
  for (const double value : values) require_probability(field, value);
}

void require_lag(std::span<const double> values, std::size_t lag) {
  require_stream("values", values);
  if (lag == 0 || lag >= values.size()) {
    throw std::invalid_argument(fmt::format(
        "lag is {}; it must be at least 1 and below the number of values, {}", lag, values.size()));
  }
}

void require_bins(std::uint32_t bins) {
  if (bins < 2 || bins > 1024) {
    throw std::invalid_argument(fmt::format("bins is {}; it must be in [2, 1024]", bins));
  }
}

double agreement_p_value(std::span<const double> first, std::span<const double> second) {
  std::uint64_t same = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if ((first[i] < 0.5) == (second[i] < 0.5)) ++same;
  }
  return binomial_p_value(same, first.size(), 0.5);
}

}  // namespace

std::vector<double> prefix_sums(std::span<const double> weights) {
  std::vector<double> sums;
  sums.reserve(weights.size());
  CompensatedSum sum;
  double last = 0;
  for (const double weight : weights) {
    require_statistic("weights", weight);
    sum.add(weight);
    if (!std::isfinite(sum.value())) {
      throw std::invalid_argument("sum of weights is infinite; it must be positive and finite");
    }
    last = std::max(last, sum.value());  // rounding of the two variables may decrease it by an ulp
    sums.push_back(last);
  }
  if (last == 0) {
    throw std::invalid_argument("sum of weights is 0; it must be positive and finite");
  }
  return sums;
}

double randomized_pit(std::span<const double> prefix, std::int64_t token,
                      std::uint64_t random_word) {
  return transform(prefix, token, random_word);
}

double randomized_pit(std::span<const std::uint64_t> prefix, std::int64_t token,
                      std::uint64_t random_word) {
  return transform(prefix, token, random_word);
}

double uniformity_p_value(std::span<const double> values) {
  return dkwm_p_value(uniform_distance(values), values.size());
}

double lag_agreement_p_value(std::span<const double> values, std::size_t lag) {
  require_lag(values, lag);
  return agreement_p_value(values.first(values.size() - lag), values.subspan(lag));
}

double lag_correlation_p_value(std::span<const double> values, std::size_t lag) {
  require_lag(values, lag);
  const Correlation sums = correlate(values.first(values.size() - lag), values.subspan(lag));
  const double prior = static_cast<double>(values.size() - lag) / 64;
  const double spread = prior + sums.squares;
  const double log_e = std::log(prior / spread) / 2 + sums.products * sums.products / (2 * spread);
  return std::min(1.0, std::exp(-log_e));
}

double pair_agreement_p_value(std::span<const double> first, std::span<const double> second) {
  require_same_size("first", first.size(), "second", second.size());
  require_stream("first", first);
  require_stream("second", second);
  return agreement_p_value(first, second);
}

double pair_correlation_p_value(std::span<const double> first, std::span<const double> second) {
  require_same_size("first", first.size(), "second", second.size());
  require_stream("first", first);
  require_stream("second", second);
  const Correlation sums = correlate(first, second);
  if (sums.squares == 0) return 1;
  const double score = std::abs(sums.products) / std::sqrt(sums.squares);
  return std::min(1.0,
                  2 * cdf(complement(boost::math::normal_distribution<double, Policy>(), score)));
}

std::vector<std::uint64_t> pair_counts(std::span<const double> first,
                                       std::span<const double> second, std::uint32_t bins) {
  require_same_size("first", first.size(), "second", second.size());
  require_stream("first", first);
  require_stream("second", second);
  require_bins(bins);
  const auto bin = [&](double u) {
    const auto number = static_cast<std::size_t>(u * static_cast<double>(bins));
    return std::min<std::size_t>(number, bins - 1);  // the value u = 1 belongs to the last bin
  };
  std::vector<std::uint64_t> counts(std::size_t{bins} * bins, 0);
  for (std::size_t i = 0; i < first.size(); ++i) ++counts[bin(first[i]) * bins + bin(second[i])];
  return counts;
}

std::vector<std::uint64_t> pair_counts(std::span<const double> values, std::size_t lag,
                                       std::uint32_t bins) {
  require_lag(values, lag);
  require_bins(bins);
  std::vector<double> first, second;
  for (std::size_t begin = 0; begin + 2 * lag <= values.size(); begin += 2 * lag) {
    const auto pairs = values.subspan(begin, 2 * lag);
    first.insert(first.end(), pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(lag));
    second.insert(second.end(), pairs.begin() + static_cast<std::ptrdiff_t>(lag), pairs.end());
  }
  if (first.empty()) return std::vector<std::uint64_t>(std::size_t{bins} * bins, 0);
  return pair_counts(first, second, bins);
}

}  // namespace fairdraw::statistics
