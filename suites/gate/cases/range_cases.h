// Cases where sizes and parameters leave the usual: vocabularies next to what vectors, tiles,
// blocks and 16 bits hold, large top_k, parameters from all over their ranges, bans everywhere.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

std::vector<NamedCase> range_cases();

/// The values that users of engines type, top_k next to the size of the vocabulary, and uniform
/// numbers that cannot reach a tail: for samplers that report tokens alone, too (value_cases.cpp).
std::vector<NamedCase> value_cases();

}  // namespace fairdraw::suites
