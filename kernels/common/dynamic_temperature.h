// The temperature that follows the entropy of what processing leaves (dynatemp_range in
// fairdraw/logits_processing.h), for host and device.
//
// apply_filters() returns the share of the entropy, whose error is that of an entropy
// (probability_filters.h), divided by ln n.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/parameters.h"
#include "common/probability_filters.h"
#include "fairdraw/logits_processing.h"

namespace fairdraw {

/// Returns exp(-x) for x >= 0 with an error below 2^-40 of it, or 0 from 700 on, with the same bits
/// on host and device: a power of two, and 14 terms of the series for a rest of at most ln(2) / 2,
/// whose rounding at x = 700 is the largest part of the error.
FAIRDRAW_HOST_DEVICE inline double natural_decay(double x) {
  if (!(x < 700.0)) return 0.0;
  const double octaves = std::floor(x * 0x1.71547652b82fep0 + 0.5);
  const double rest = x - octaves * 0x1.62e42fefa39efp-1;
  double series = 1.0;
  for (int k = 13; k >= 1; --k) series = 1.0 - rest / static_cast<double>(k) * series;
  const auto unit =
      std::bit_cast<double>(static_cast<std::uint64_t>(1023 - static_cast<int>(octaves)) << 52);
  return series * unit;
}

/// Returns the temperature of a row whose request has the temperature `temperature`, and whose
/// tokens have this share of the entropy. If the temperature or a parameter is out of its range,
/// the temperature stays as it is, so that the row fails because of that.
FAIRDRAW_HOST_DEVICE inline float dynamic_temperature(float temperature,
                                                      const ProbabilityFilters& filters,
                                                      double share) {
  if (filters.dynatemp_range == 0.0F || !is_chain_temperature(temperature) ||
      !filters.are_valid()) {
    return temperature;
  }
  const auto range = static_cast<double>(filters.dynatemp_range);
  const auto center = static_cast<double>(temperature);
  const double low = center > range ? center - range : 0.0;
  double power = share;
  if (filters.dynatemp_exponent != 1.0F) {
    const auto exponent = static_cast<double>(filters.dynatemp_exponent);
    power = share > 0.0 ? natural_decay(exponent * natural_log(1.0 / share))
                        : static_cast<double>(exponent == 0.0);
  }
  const double high = center + range;
  const double now = low + (high - low) * power;
  if (now < static_cast<double>(kSmallestTemperature)) return kSmallestTemperature;
  return now < static_cast<double>(kLargestTemperature) ? static_cast<float>(now)
                                                        : kLargestTemperature;
}

/// Returns whether the temperature of a row of the call may follow its entropy.
inline bool follows_entropy(const LogitsProcessing& processing) {
  return processing.dynatemp_range.is_array() || processing.dynatemp_range.scalar != 0.0F;
}

}  // namespace fairdraw
