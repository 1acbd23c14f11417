// A joint test of all statistical cases of a sampler. It finds a small bias that is present
// everywhere before any single case does.
#pragma once

#include <optional>
#include <span>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// Returns case `global` of `sampler`: Bonferroni and Fisher over the p-values of its cases,
/// compared with `level`. The cases draw from independent random words. chi_squared contributes
/// Pearson's p-value if valid (at least 10 cells; pooling ensures 400 expected draws per cell);
/// binomial and pit contribute their smallest p-value times the number of their tests. Returns
/// nothing if fewer than two cases have a p-value. P-values that are too large only make the test
/// weaker.
std::optional<harness::CaseRecord> global_case(std::span<const harness::CaseRecord> cases,
                                               const harness::SamplerRecord& sampler, double level);

}  // namespace fairdraw::suites
