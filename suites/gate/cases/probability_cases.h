// Cases of probabilities, drafted chains and supplied random words.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Returns the cases of all suites on probabilities, without ids.
std::vector<NamedCase> probability_cases();

}  // namespace fairdraw::suites
