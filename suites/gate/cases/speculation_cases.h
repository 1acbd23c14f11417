// The part of the table on requests with drafted tokens.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Ids are not filled in; nothing is left out for a suite.
std::vector<NamedCase> speculation_cases();

}  // namespace fairdraw::suites
