// The features that a case exercises. A report lists them as judged or not judged.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/coverage.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// Returns the features that `entry` exercises, in the order of features.inc. Precondition: the
/// sampled values of the case are filled in. Features of the rows (filters, dtypes, rules, masks,
/// processing) are found with harness::lack_for(), the function that skips cases. A case exercises
/// an ability if a sampler with every other ability could not run the case. All other features of a
/// case follow from its check.
std::vector<harness::Feature> features_of(const Case& entry);

/// Throws harness::UsageError that names `option` and the closest features if one of the names is
/// not a feature.
void expect_features(const char* option, const std::vector<std::string>& names);

}  // namespace fairdraw::suites
