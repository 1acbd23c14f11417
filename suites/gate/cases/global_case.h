// A test of all statistical cases of a sampler together. The test detects a small bias that is
// present in all cases before any single case does.
#pragma once

#include <optional>
#include <span>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// Returns the case `global` of `sampler`. The case applies Bonferroni's and Fisher's methods to
/// the p-values of the sampler's cases, and compares the result with `level`. The cases draw from
/// independent random words. chi_squared contributes Pearson's p-value if this is valid (at least
/// 10 cells; pooling ensures 400 expected draws per cell). binomial and pit contribute their
/// smallest p-value times the number of their tests. Returns nothing if fewer than two cases have a
/// p-value. P-values that are too large only make the test less powerful.
std::optional<harness::CaseRecord> global_case(std::span<const harness::CaseRecord> cases,
                                               const harness::SamplerRecord& sampler, double level);

}  // namespace fairdraw::suites
