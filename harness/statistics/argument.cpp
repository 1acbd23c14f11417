#include "harness/statistics/argument.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "harness/statistics/compensated_sum.h"

namespace fairdraw::statistics {
namespace {

template <class Value>
[[noreturn]] void refuse(std::string_view field, const Value& value, std::string_view range) {
  throw std::invalid_argument(fmt::format("{} is {}; it must be {}", field, value, range));
}

void require_distribution_above(std::string_view field, std::span<const double> probability,
                                bool zero_is_allowed) {
  if (probability.empty()) refuse(field, "empty", "at least one probability");
  CompensatedSum sum;
  for (std::size_t i = 0; i < probability.size(); ++i) {
    const double p = probability[i];
    const bool in_range = p >= 0 && p <= 1 && (zero_is_allowed || p > 0);  // false for NaN
    if (!in_range) {
      refuse(fmt::format("{}[{}]", field, i), p, zero_is_allowed ? "in [0, 1]" : "in (0, 1]");
    }
    sum.add(p);
  }
  if (!(std::abs(sum.value() - 1) <= kDistributionSlack)) {
    refuse(fmt::format("sum of {}", field), sum.value(),
           fmt::format("1 within {:.3g}", kDistributionSlack));
  }
}

}  // namespace

void require_probability(std::string_view field, double value) {
  if (!(value >= 0 && value <= 1)) refuse(field, value, "in [0, 1]");
}

void require_error_rate(std::string_view field, double value) {
  if (!(value > 0 && value <= 0.5)) refuse(field, value, "in (0, 0.5]");
}

void require_discrepancy(std::string_view field, double value) {
  if (!(value > 0 && value <= 1)) refuse(field, value, "in (0, 1]");
}

void require_statistic(std::string_view field, double value) {
  if (!(value >= 0 && std::isfinite(value))) refuse(field, value, "finite and at least 0");
}

void require_draws(std::string_view field, std::uint64_t value, std::uint64_t lowest) {
  if (value < lowest || value > kMaxDraws) {
    refuse(field, value, fmt::format("in [{}, 2^53]", lowest));
  }
}

void require_same_size(std::string_view field, std::size_t size, std::string_view other,
                       std::size_t other_size) {
  if (size == 0 || size != other_size) {
    refuse(fmt::format("size of {}", field), size,
           fmt::format("that of {}, {}, and at least 1", other, other_size));
  }
}

void require_distribution(std::string_view field, std::span<const double> probability) {
  require_distribution_above(field, probability, true);
}

void require_positive_distribution(std::string_view field, std::span<const double> probability) {
  require_distribution_above(field, probability, false);
}

std::uint64_t require_total(std::string_view field, std::span<const std::uint64_t> counts) {
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts) {
    if (count > kMaxDraws - total) {
      refuse(fmt::format("sum of {}", field), "above 2^53", "in [1, 2^53]");
    }
    total += count;
  }
  require_draws(fmt::format("sum of {}", field), total, 1);
  return total;
}

std::uint64_t draws_from(double value, std::string_view field, double field_value) {
  const double draws = std::ceil(value);
  if (!(draws <= static_cast<double>(kMaxDraws))) {
    refuse(field, field_value, fmt::format("large enough for 2^53 draws; it takes {:.3g}", draws));
  }
  return static_cast<std::uint64_t>(draws);
}

}  // namespace fairdraw::statistics
