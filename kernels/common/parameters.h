// Ranges of the parameters that each request has, and the filter parameters of one row.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "fairdraw/types.h"

namespace fairdraw {

inline constexpr float kSmallestTemperature = 0x1p-126F;
inline constexpr float kLargestTemperature = 0x1p64F;

/// Temperature and filter parameters of one row.
struct RowParameters {
  float temperature = 1.0F;
  std::int32_t top_k = 0;
  float top_p = 1.0F;
  float min_p = 0.0F;
};

/// Returns ok, or the status of the first parameter that is out of range, in the order temperature,
/// top_k, top_p, min_p. Comparisons with NaN are false, so NaN is out of every range.
FAIRDRAW_HOST_DEVICE inline RowStatus check(const RowParameters& parameters) {
  const float temperature = parameters.temperature;
  const bool temperature_ok = temperature == 0.0F || (temperature >= kSmallestTemperature &&
                                                      temperature <= kLargestTemperature);
  if (!temperature_ok) return RowStatus::invalid_temperature;
  if (parameters.top_k < -1) return RowStatus::invalid_top_k;
  if (!(parameters.top_p >= 0.0F && parameters.top_p <= 1.0F)) return RowStatus::invalid_top_p;
  if (!(parameters.min_p >= 0.0F && parameters.min_p <= 1.0F)) return RowStatus::invalid_min_p;
  return RowStatus::ok;
}

/// Returns the result of check(parameters) or, if this is ok, the status of the first rule whose
/// value is not defined.
FAIRDRAW_HOST_DEVICE inline RowStatus check(const RowParameters& parameters, TieRule tie_rule,
                                            FilterOrder filter_order) {
  const RowStatus status = check(parameters);
  if (status != RowStatus::ok) return status;
  if (tie_rule != TieRule::keep_all && tie_rule != TieRule::lowest_id) {
    return RowStatus::invalid_tie_rule;
  }
  const bool ordered =
      filter_order == FilterOrder::top_k_first || filter_order == FilterOrder::joint;
  return ordered ? RowStatus::ok : RowStatus::invalid_filter_order;
}

/// Returns whether top_k keeps fewer than `vocab` tokens.
FAIRDRAW_HOST_DEVICE inline bool top_k_is_on(std::int32_t top_k, std::int64_t vocab) {
  return top_k > 0 && top_k < vocab;
}

/// Returns whether a row is greedy, which means that the token with the largest value is taken, and
/// the one with the lowest id among equal values.
FAIRDRAW_HOST_DEVICE inline bool is_greedy(const RowParameters& parameters) {
  return parameters.temperature == 0.0F || parameters.top_k == 1 || parameters.top_p == 0.0F;
}

}  // namespace fairdraw
