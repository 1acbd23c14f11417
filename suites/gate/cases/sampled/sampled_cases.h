// Cases that leave values to the run's seed (sampled.h).
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Returns the sampled cases of all suites, without ids.
std::vector<NamedCase> sampled_cases();

}  // namespace fairdraw::suites
