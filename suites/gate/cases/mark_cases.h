// Cases of rows that a secret key marks.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Returns the cases of marks of all suites, without ids.
std::vector<NamedCase> mark_cases();

}  // namespace fairdraw::suites
