// Cases of logits processing and log-probabilities.
#pragma once

#include <vector>

#include "suites/gate/cases/probability_cases.h"

namespace fairdraw::suites {

/// Returns the serving cases of all suites, with one operation per row and without ids.
std::vector<NamedCase> serving_cases();

}  // namespace fairdraw::suites
