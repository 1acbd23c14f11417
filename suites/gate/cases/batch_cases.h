// Cases whose axis is the number of rows of a call, and rows whose boundary token is heavy.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

std::vector<NamedCase> batch_cases();

}  // namespace fairdraw::suites
