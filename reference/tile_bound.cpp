#include "reference/tile_bound.h"

#include <algorithm>
#include <boost/math/special_functions/lambert_w.hpp>
#include <cmath>

namespace fairdraw::reference {
namespace {

constexpr double kE = 2.71828182845904523536;
constexpr double kLog2E = 1.44269504088896340736;

// The largest weight that may be lost, the row's largest being 1.
constexpr double kUnit = 0x1p-48;

}  // namespace

double tile_weight_error(double octaves) {
  constexpr double per_octave = 0x1p-24 / kLog2E;
  return 0x1p-22 + per_octave * octaves + kUnit * std::exp2(octaves);
}

double tile_prob_error(double octaves) {
  return octaves <= 32 ? 0 : std::min(1.0, kUnit * std::exp2(octaves));
}

double tile_distribution_error(std::span<const double> octaves) {
  long double sum = 0;
  long double error = 0;
  for (const double distance : octaves) {
    const double weight = std::exp2(-distance);
    sum += weight;
    error += weight * std::min(1.0, tile_weight_error(distance));
  }
  return static_cast<double>(error / sum);
}

double largest_mean_octaves(std::size_t vocab) {
  return kLog2E * boost::math::lambert_w0(static_cast<double>(vocab - 1) / kE);
}

double largest_tile_distribution_error(std::size_t vocab) {
  return 0x1p-22 + 0x1p-24 / kLog2E * largest_mean_octaves(vocab) +
         static_cast<double>(vocab) * kUnit;
}

double largest_tile_prob_distribution_error(std::size_t vocab) {
  return static_cast<double>(vocab) * kUnit;
}

double word_distribution_error(std::size_t vocab) { return static_cast<double>(vocab) * 0x1p-65; }

}  // namespace fairdraw::reference
