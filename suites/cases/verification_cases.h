// The part of the table on requests with drafted tokens.
#pragma once

#include <vector>

#include "suites/cases/named_case.h"

namespace fairdraw::suites {

/// Ids are not filled in; nothing is left out for a suite.
std::vector<NamedCase> verification_cases();

}  // namespace fairdraw::suites
