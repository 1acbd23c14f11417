// The part of the table on probabilities, drafted chains and given random words.
#pragma once

#include <string>
#include <vector>

#include "suites/cases/case.h"

namespace fairdraw::suites {

/// A case, its operations filled in, and their name as a part of its id.
struct NamedCase {
  Case entry;
  std::string operations_name;
};

/// Draws from probabilities, chains, given random words. Ids are not filled in; nothing is left out
/// for a suite.
std::vector<NamedCase> probability_cases();

}  // namespace fairdraw::suites
