// Distributions in each dtype, and at vocabularies above 2^17.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Ids are not filled in; nothing is left out for a suite.
std::vector<NamedCase> distribution_cases();

}  // namespace fairdraw::suites
