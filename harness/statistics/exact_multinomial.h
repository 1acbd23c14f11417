// Exact multinomial test of a small support: every outcome is enumerated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fairdraw::statistics {

inline constexpr std::size_t kMaxExactCells = 6;
inline constexpr std::uint64_t kMaxExactDraws = 200;

/// P(G(outcome) >= G(counts)) under the multinomial distribution: outcomes are ordered by the
/// likelihood ratio against `probability` (a distribution without zeros). At most 6 cells and 200
/// draws: 2.9e9 outcomes, met in the middle (two halves of 3 cells, 1.4e6 outcomes each), well
/// below a second. Outcomes as unlikely as the observed one within rounding count as equal to it,
/// so the result is never too small for that.
double exact_multinomial_p_value(std::span<const std::uint64_t> counts,
                                 std::span<const double> probability);

}  // namespace fairdraw::statistics
