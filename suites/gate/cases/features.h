// Which features a case exercises: what a report says was judged, or not.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/coverage.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// The features that `entry`, with its values filled in, asks a sampler for, in the order of
/// features.inc. What its rows need (filters, dtypes, rules, masks, processing) is found by asking
/// harness::lack_for(), the function that skips cases: a sampler that has everything but one
/// ability lacks that one for this case, or it does not. What is judged of it is the check's.
std::vector<harness::Feature> features_of(const Case& entry);

/// Throws harness::UsageError naming `option`, with the closest names, where one is no feature.
void expect_features(const char* option, const std::vector<std::string>& names);

}  // namespace fairdraw::suites
