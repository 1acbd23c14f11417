// One look at all statistical cases of a sampler together: a small bias that is everywhere shows
// here before it shows in any case.
#pragma once

#include <optional>
#include <span>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// Case `global` of `sampler`: Bonferroni and Fisher over the p-values of its cases, which draw
/// from independent random words, compared with `level`. chi_squared gives Pearson's p-value where
/// that is valid (10 cells or more; the pooling sees to 400 expected in each), binomial and pit
/// the smallest of theirs times their number. Nothing where fewer than two cases have one.
/// p-values that are too large only make it weaker.
std::optional<harness::CaseRecord> global_case(std::span<const harness::CaseRecord> cases,
                                               const harness::SamplerRecord& sampler, double level);

}  // namespace fairdraw::suites
