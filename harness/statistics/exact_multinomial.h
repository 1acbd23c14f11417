// The exact multinomial test for small supports, by enumeration of every outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fairdraw::statistics {

inline constexpr std::size_t kMaxExactCells = 6;
inline constexpr std::uint64_t kMaxExactDraws = 200;

/// Returns P(G(outcome) >= G(counts)) under the multinomial distribution: outcomes are ordered by
/// the likelihood ratio against `probability`, a distribution without zeros. The test allows at
/// most 6 cells and 200 draws. The 2.9e9 outcomes of that size are handled by meeting in the middle
/// (two halves of 3 cells with 1.4e6 outcomes each), which takes well below a second. Outcomes
/// whose G differs from the observed one only by rounding count as equal, so that rounding never
/// makes the result too small.
double exact_multinomial_p_value(std::span<const std::uint64_t> counts,
                                 std::span<const double> probability);

}  // namespace fairdraw::statistics
