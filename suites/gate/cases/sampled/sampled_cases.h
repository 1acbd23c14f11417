// The part of the table that leaves values to the run's seed (sampled.h).
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Ids are not filled in; nothing is left out for a suite.
std::vector<NamedCase> sampled_cases();

}  // namespace fairdraw::suites
