// Cases of running batches, whose requests enter and leave.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Returns the cases for samplers that keep their requests, without ids.
std::vector<NamedCase> sequence_cases();

}  // namespace fairdraw::suites
