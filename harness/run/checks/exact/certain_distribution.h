// Counts the draws of one row over the tokens that are certainly in its support. The checks
// chi_squared.cpp, binomial.cpp and bets.cpp of checks/statistical use this code.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "harness/statistics/pooling.h"

namespace fairdraw::harness {

/// The distribution over the tokens that are certainly in the support, normalised. Draws of an
/// ambiguous or partly drawn token are left out of both sides, so that the token's share does not
/// matter.
struct CertainDistribution {
  std::vector<double> probability;  ///< [vocab], 0 for tokens that are out or ambiguous
  std::size_t support = 0;
  double ambiguous_mass = 0;
};

CertainDistribution certain_distribution(const reference::RealDistribution& distribution);

/// Finds the distribution of row 0, with which its draws are compared. Returns the reason why no
/// draws are judged (the sampler cannot make them, or the semantics give the row no distribution);
/// otherwise returns an empty one.
Lack find_distribution(const CheckInput& input, const Request& request,
                       reference::RealDistribution& distribution);

/// Returns all tokens [vocab] by decreasing probability; of equal tokens, the lower id comes first.
std::vector<std::uint32_t> by_falling_probability(std::span<const double> probability);

/// Returns how many of `draws` draws are expected to give certain tokens.
std::uint64_t certain_draws(std::uint64_t draws, const reference::RealDistribution& distribution);

struct CertainCounts {
  std::vector<std::uint64_t> of_token;  ///< [vocab], 0 for tokens that are not certain
  std::uint64_t draws = 0;              ///< their sum
};

/// Returns the look whose draws this part of the case makes (CountSource); without a value, the
/// whole case is run.
std::optional<int> part_of_look(const CheckInput& input);

/// Makes input.draws draws of row 0, with other random words for each `seed`. The function also
/// makes the judgements that need no statistics: tokens outside of the support or of the
/// vocabulary, and draws without any certain token. A part of a case judges nothing, and gets no
/// counts.
CertainCounts draw_row(const CheckInput& input, const Request& request,
                       const reference::RealDistribution& distribution, std::uint64_t seed,
                       CheckOutcome& outcome);

/// Returns bounds on the relative errors [vocab] of the weights of a sampler that is right within
/// its profile: the oracle's own bound at each token's distance from the most likely token, but at
/// most 1. The bound is 0 for tokens that are not certain.
std::vector<double> weight_errors(const CheckInput& input, const CertainDistribution& distribution);

/// Bounds on the errors of the probabilities of cells, each within a factor 1 +- e, if the weights
/// have the errors `errors` [vocab]. With `error` the mean of these errors over a cell, and `all`
/// their mean over the distribution, e = (error + all) / (1 - all).
struct ErrorOfCells {
  double largest = 0;      ///< maximum of all e
  double chi_squared = 0;  ///< sum of p e^2
};
ErrorOfCells error_of_cells(const statistics::Pooling& pooling,
                            const CertainDistribution& distribution,
                            const std::vector<double>& errors);

/// Records the counts over up to 32 cells by rank and 32 lanes, for `merge --across-seeds`.
void note_cells(const CheckInput& input, const CertainDistribution& distribution,
                const CertainCounts& drawn, CheckOutcome& outcome);

/// Records the effect size: the observed total variation distance over `cells` cells, and an
/// interval that misses the true distance in 1 of 100 cases (the measures total_variation_lower and
/// _upper). It decides nothing.
void note_total_variation(double observed, std::size_t cells, std::uint64_t draws,
                          CheckOutcome& outcome);

}  // namespace fairdraw::harness
