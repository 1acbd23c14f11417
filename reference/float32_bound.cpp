#include "reference/float32_bound.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace fairdraw::reference {
namespace {

constexpr double kHalfUlp = 0x1p-24;

// Returns a bound on |(1 + u)^roundings - 1|.
double growth(double roundings) { return roundings * kHalfUlp / (1 - roundings * kHalfUlp); }

}  // namespace

double weight_error(const Float32Arithmetic& arithmetic) {
  return growth(2 * arithmetic.exp_ulps + 1);
}

double sum_error(const Float32Arithmetic& arithmetic) {
  constexpr std::size_t kMax = std::size_t{1} << 22;
  if (arithmetic.additions >= kMax) {
    throw std::invalid_argument("additions is " + std::to_string(arithmetic.additions) +
                                "; it must be below 2^22");
  }
  return growth(2 * static_cast<double>(arithmetic.additions) + 2);
}

std::size_t sequential_additions(std::size_t n) { return n == 0 ? 0 : n - 1; }

std::size_t tree_additions(std::size_t n) {
  return n == 0 ? 0 : static_cast<std::size_t>(std::bit_width(n - 1));
}

std::size_t blocked_additions(std::size_t n, std::size_t block) {
  return sequential_additions(std::min(n, block)) + sequential_additions((n + block - 1) / block);
}

Semantics in_float32(Semantics semantics, const Float32Arithmetic& arithmetic) {
  semantics.relative_weight_error = weight_error(arithmetic);
  semantics.relative_sum_error = sum_error(arithmetic);
  semantics.rounds_scaled_logits = true;
  semantics.extremes_are_open = true;
  return semantics;
}

double interval_error(const RealDistribution& distribution, const Semantics& semantics) {
  double sums = semantics.relative_sum_error;
  if (semantics.sequential_sums) {
    sums += sum_error({.additions = sequential_additions(distribution.membership.size())});
  }
  return distribution.total_variation_bound + sums + 0x1p-23;
}

}  // namespace fairdraw::reference
