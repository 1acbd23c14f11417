// Cases in which the number of rows per call varies, and cases whose boundary token has a large
// probability.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

std::vector<NamedCase> batch_cases();

}  // namespace fairdraw::suites
