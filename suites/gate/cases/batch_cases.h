// Cases that vary the number of rows per call, and cases whose boundary token is heavy.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

std::vector<NamedCase> batch_cases();

}  // namespace fairdraw::suites
