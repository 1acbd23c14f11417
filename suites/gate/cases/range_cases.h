// Cases where sizes and parameters leave the usual: vocabularies next to what vectors, tiles,
// blocks and 16 bits hold, large top_k, parameters from all over their ranges, bans everywhere.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

std::vector<NamedCase> range_cases();

}  // namespace fairdraw::suites
