// Draws of one row, counted against what its distribution is sure of. For chi_squared.cpp,
// binomial.cpp and bets.cpp of checks/statistical.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "harness/statistics/pooling.h"

namespace fairdraw::harness {

/// The distribution over the tokens that belong to the support beyond doubt, as a distribution of
/// its own: draws that fall on an ambiguous token, or one that is partly drawn, are left out on
/// both sides, so their part cannot matter.
struct CertainDistribution {
  std::vector<double> probability;  ///< [vocab], 0 for tokens that are out or ambiguous
  std::size_t support = 0;
  double ambiguous_mass = 0;
};

CertainDistribution certain_distribution(const reference::RealDistribution& distribution);

/// The distribution of row 0 to judge draws by. Empty, or why there are none to judge: the sampler
/// cannot make them, or the semantics give the row no distribution.
Lack find_distribution(const CheckInput& input, const Request& request,
                       reference::RealDistribution& distribution);

/// All tokens [vocab], largest probability first, lower id first among equals.
std::vector<std::uint32_t> by_falling_probability(std::span<const double> probability);

/// How many of `draws` draws fall on certain tokens, expected.
std::uint64_t certain_draws(std::uint64_t draws, const reference::RealDistribution& distribution);

/// Counts of the tokens that are certain.
struct CertainCounts {
  std::vector<std::uint64_t> of_token;  ///< [vocab], 0 for tokens that are not certain
  std::uint64_t draws = 0;              ///< their sum
};

/// The look whose draws a part of the case makes (CountSource); absent: the case is whole.
std::optional<int> part_of_look(const CheckInput& input);

/// input.draws draws of row 0, from random words of their own for each `seed`. Judges what needs no
/// statistics: tokens outside of the support or of the vocabulary, and no certain token at all. Of
/// a part of the case, which judges nothing, it returns no counts.
CertainCounts draw_row(const CheckInput& input, const Request& request,
                       const reference::RealDistribution& distribution, std::uint64_t seed,
                       CheckOutcome& outcome);

/// Bounds on the relative error [vocab] of the weights of a sampler that is right within its
/// profile: the oracle's own bound at each token's distance from the most likely one, at most 1.
/// 0 for tokens that are not certain.
std::vector<double> weight_errors(const CheckInput& input, const CertainDistribution& distribution);

/// What the probabilities of cells may be off by, each within a factor 1 +- e, where weights are
/// off by `errors` [vocab]: with a cell's error the mean of theirs over it, and all the mean over
/// the distribution, e = (error + all) / (1 - all).
struct ErrorOfCells {
  double largest = 0;      ///< of all e
  double chi_squared = 0;  ///< sum of p e^2
};
ErrorOfCells error_of_cells(const statistics::Pooling& pooling,
                            const CertainDistribution& distribution,
                            const std::vector<double>& errors);

/// Keeps the counts over up to 32 cells by rank, and by lane of 32, for `merge --across-seeds`.
void note_cells(const CheckInput& input, const CertainDistribution& distribution,
                const CertainCounts& drawn, CheckOutcome& outcome);

/// The effect size: the observed total variation over `cells` cells, with an interval for the true
/// one as measures total_variation_lower and _upper, which misses it in 1 of 100 cases. It decides
/// nothing.
void note_total_variation(double observed, std::size_t cells, std::uint64_t draws,
                          CheckOutcome& outcome);

}  // namespace fairdraw::harness
