// Draws of a distribution case, and their evidence against the expected distribution.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suites/gate/fuzz/subject.h"

namespace fairdraw::suites::fuzz {

/// ln 10^6, the evidence that a statistical failure needs. A finding needs this evidence twice, the
/// second time on fresh draws. So a correct sampler gives a finding with a probability of at most
/// 1e-12 per case.
inline constexpr double kLogEvidence = 13.815510557964274;

/// The distribution by which the draws from a row are judged.
struct DrawDistribution {
  std::vector<double> probability;  ///< [vocab], sum 1
  double slack = 0;                 ///< largest error per token that a correct sampler may have
};

/// Returns nothing if the row has no distribution under these semantics (invalid parameters, no
/// allowed token).
std::optional<DrawDistribution> distribution_of_case(Subject& subject);

struct DrawEvidence {
  std::vector<std::uint64_t> counts;  ///< [vocab]; counts of all draws until the evidence sufficed
  std::uint64_t draws = 0, no_token = 0;
  double log_evidence = 0;
  std::string trouble;  ///< reason why drawing ended early; empty if it did not
};

/// Draws from the sampler in stages of doubling size, with seeds that follow from the case's salt.
/// Drawing ends at an evidence of kLogEvidence, or at the case's number of draws.
DrawEvidence draw_evidence(Subject& subject, const DrawDistribution& distribution);

}  // namespace fairdraw::suites::fuzz
