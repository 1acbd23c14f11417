// How far the integer model is from real arithmetic, measured token by token on one row.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace fairdraw::reference {

struct TileDistance {
  double distance = 0;          ///< in total variation
  double bound = 0;             ///< on it, of this row
  double mean_error = 0;        ///< of the weights' relative errors, over the real distribution
  double largest_error = 0;     ///< of the weights within 20 octaves of the maximum
  std::size_t out_of_band = 0;  ///< tokens whose weight is off by more than its bound
  double own_error = 0;         ///< of `distance` and of `mean_error`, at most
};

/// In long double of 64 bits or more.
TileDistance distance_to_softmax(std::span<const float> logits, float temperature);
TileDistance distance_to_probs(std::span<const float> probs);

/// For messages.
std::string describe(const TileDistance& distance);

}  // namespace fairdraw::reference
