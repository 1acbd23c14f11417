#include "reference/tests/tile_distance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "reference/integer_model.h"
#include "reference/tile_bound.h"

namespace fairdraw::reference {
namespace {

static_assert(LDBL_MANT_DIG >= 64, "long double has 64 bits");

// The relative error of a weight in this file's long double arithmetic: three roundings of 2^-64 in
// the distance, which is below 2^13 wherever an exponential is not 0 (2^-52 of the weight), and one
// ulp of the exponential and of each product.
constexpr long double kOwnError = 0x1p-50L;

constexpr long double kLog2E = 1.4426950408889634073599246810019L;

/// Compares the weight of each token with A 2^-d. The argument `octaves` has the distances d, and
/// `unit` is A.
template <typename ErrorAt>
TileDistance compare(const IntegerRow& row, std::span<const long double> octaves, long double unit,
                     ErrorAt error_at) {
  long double sum = 0;
  for (const long double d : octaves) sum += std::exp2(-d);
  TileDistance seen;
  long double twice = 0;
  long double mean = 0;
  for (std::size_t id = 0; id < octaves.size(); ++id) {
    const long double d = octaves[id];
    const auto weight = static_cast<long double>(row.weight[id]);
    const long double exact = unit * std::exp2(-d);
    const long double error = std::abs(weight - exact);
    // If 2^d may be infinite, the weight is 0 and its relative error is 1.
    const long double allowed = d < 64 ? error_at(static_cast<double>(d)) : 1.0;
    if (!(error <= (allowed + kOwnError) * exact)) ++seen.out_of_band;
    if (exact > 0) mean += error / unit;
    if (d <= 20)
      seen.largest_error = std::max(seen.largest_error, static_cast<double>(error / exact));
    twice +=
        std::abs(weight / static_cast<long double>(row.total_unfiltered) - std::exp2(-d) / sum);
  }
  seen.distance = static_cast<double>(twice / 2);
  // A sum of V terms has a relative error of V 2^-64; this applies to the sum of weights and to the
  // sum of differences.
  seen.own_error =
      static_cast<double>(kOwnError) * 2 + static_cast<double>(octaves.size()) * 0x1p-62;
  seen.mean_error = static_cast<double>(mean / sum);
  return seen;
}

}  // namespace

TileDistance distance_to_softmax(std::span<const float> logits, float temperature) {
  const IntegerRow row = integer_model(logits, {}, {.temperature = temperature});
  const float largest = *std::ranges::max_element(logits);
  std::vector<long double> octaves;
  for (const float logit : logits) {
    octaves.push_back((static_cast<long double>(largest) - static_cast<long double>(logit)) *
                      kLog2E / static_cast<long double>(temperature));
  }
  // The value A is computed from the octaves of the maximum in the model, where a weight of 2^E is
  // 2^103.
  const double of_maximum =
      static_cast<double>(largest) * static_cast<double>(octaves_per_logit(temperature));
  const long double unit = std::exp2(static_cast<long double>(of_maximum - row.octave) + 103);
  TileDistance seen = compare(row, octaves, unit, [](double d) { return kTileWeights.at(d); });
  const std::vector<double> rounded(octaves.begin(), octaves.end());
  seen.bound = tile_distribution_error(rounded);
  return seen;
}

TileDistance distance_to_probs(std::span<const float> probs) {
  const IntegerRow row = integer_model_from_probs(probs, {});
  const float largest = *std::ranges::max_element(probs);
  std::vector<long double> octaves;
  for (const float probability : probs) {
    octaves.push_back(
        std::log2(static_cast<long double>(largest) / static_cast<long double>(probability)));
  }
  const long double unit =
      std::ldexp(static_cast<long double>(largest), 103 - static_cast<int>(row.octave));
  TileDistance seen = compare(row, octaves, unit, tile_prob_error);
  seen.bound = largest_tile_prob_distribution_error(probs.size());
  return seen;
}

std::string describe(const TileDistance& seen) {
  return fmt::format("distance {:.3e}, bound {:.3e}, mean error {:.3e}, largest {:.3e}, {} out",
                     seen.distance, seen.bound, seen.mean_error, seen.largest_error,
                     seen.out_of_band);
}

}  // namespace fairdraw::reference
