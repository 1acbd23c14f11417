#include "reference/tile_bound.h"

#include <algorithm>
#include <cmath>

namespace fairdraw::reference {
namespace {

constexpr double kPerOctave = kTileWeights.per_octave;
constexpr double kUnit = kTileWeights.unit;

}  // namespace

double tile_prob_error(double octaves) {
  return octaves <= 32 ? 0 : std::min(1.0, kUnit * std::exp2(octaves));
}

double tile_distribution_error(std::span<const double> octaves) {
  long double sum = 0;
  long double mean = 0;
  long double cut = 0;
  for (const double distance : octaves) {
    const double weight = std::exp2(-distance);
    sum += weight;
    mean += weight * distance;
    cut += std::min(weight, kUnit);
  }
  mean /= sum;
  long double deviation = 0;
  for (const double distance : octaves) {
    deviation += std::exp2(-distance) * std::abs(distance - static_cast<double>(mean)) / 2;
  }
  return static_cast<double>(0x1p-23 + (kPerOctave * deviation + cut) / sum);
}

double largest_tile_distribution_error(std::size_t vocab) {
  const auto tokens = static_cast<double>(vocab);
  return 0x1p-23 + kPerOctave * (std::log2(tokens) / 4 + 1.0 / 3) + tokens * kUnit;
}

double largest_tile_prob_distribution_error(std::size_t vocab) {
  return static_cast<double>(vocab) * kUnit;
}

double written_error(double octaves, std::size_t vocab) {
  const auto tokens = static_cast<double>(vocab);
  return 0x1p-21 + kPerOctave * (octaves + std::log2(tokens)) + tokens * kUnit;
}

double word_distribution_error(std::size_t vocab) { return static_cast<double>(vocab) * 0x1p-65; }

}  // namespace fairdraw::reference
