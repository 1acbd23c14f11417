// Cases of requests with drafted tokens.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// The functions below return whether a check verifies drafted tokens: from rows of probabilities,
/// or from logits.
bool is_of_chains(Check check);
bool is_of_speculation(Check check);

/// Returns the speculation cases of all suites, without ids.
std::vector<NamedCase> speculation_cases();

}  // namespace fairdraw::suites
