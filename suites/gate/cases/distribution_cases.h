// Cases of distributions in each dtype, and at vocabularies above 2^17.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Returns the distribution cases of all suites, without ids.
std::vector<NamedCase> distribution_cases();

}  // namespace fairdraw::suites
