// Measures the distance of the integer model from real arithmetic, for each token of a row.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace fairdraw::reference {

struct TileDistance {
  double distance = 0;          ///< in total variation
  double bound = 0;             ///< bound on the distance for this row of logits
  double mean_error = 0;        ///< mean relative error of weights under the real distribution
  double largest_error = 0;     ///< largest relative error of a weight within 20 octaves of the
                                ///< maximum
  std::size_t out_of_band = 0;  ///< number of tokens whose weight is off by more than its bound
  double own_error = 0;         ///< bound on the errors of `distance` and `mean_error` themselves
};

/// Measure the distance in long double of at least 64 bits.
TileDistance distance_to_softmax(std::span<const float> logits, float temperature);
TileDistance distance_to_probs(std::span<const float> probs);

/// Returns a description of the distance, for messages.
std::string describe(const TileDistance& distance);

}  // namespace fairdraw::reference
