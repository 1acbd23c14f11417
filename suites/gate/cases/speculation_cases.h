// The part of the table on requests with drafted tokens.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Whether a check is of drafts that are verified: of rows of probabilities, or of logits.
bool is_of_chains(Check check);
bool is_of_speculation(Check check);

/// Ids are not filled in; nothing is left out for a suite.
std::vector<NamedCase> speculation_cases();

}  // namespace fairdraw::suites
