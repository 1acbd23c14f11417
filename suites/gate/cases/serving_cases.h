// The part of the table on what lies around a draw: logits processing and log-probabilities.
#pragma once

#include <vector>

#include "suites/gate/cases/probability_cases.h"

namespace fairdraw::suites {

/// Lists of operations, row by row. Ids are not filled in; nothing is left out for a suite.
std::vector<NamedCase> serving_cases();

}  // namespace fairdraw::suites
