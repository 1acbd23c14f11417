// Features that a case exercises. A report lists them as judged or not judged.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/coverage.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// Returns the features that `entry` exercises, in the order of features.inc. Precondition: the
/// case's sampled values are filled in. Features of the rows (filters, dtypes, rules, masks,
/// processing) are found with harness::lack_for(), the function that skips cases: the case
/// exercises an ability if a sampler that has every other ability could not run it. All other
/// features come from the check.
std::vector<harness::Feature> features_of(const Case& entry);

/// Throws harness::UsageError that names `option` and the closest features if a name is not a
/// feature.
void expect_features(const char* option, const std::vector<std::string>& names);

}  // namespace fairdraw::suites
