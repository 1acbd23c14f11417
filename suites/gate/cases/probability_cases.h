// The part of the table on probabilities, drafted chains and given random words.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Draws from probabilities, chains, given random words. Ids are not filled in; nothing is left out
/// for a suite.
std::vector<NamedCase> probability_cases();

}  // namespace fairdraw::suites
