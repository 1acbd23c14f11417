// Cases of unusual sizes and parameters: vocabularies next to the capacity of vectors, tiles,
// blocks and 16 bits, large top_k, parameters from their whole ranges, and bans.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

std::vector<NamedCase> range_cases();

/// Returns cases of three kinds: parameter values that users of engines type, top_k next to the
/// vocabulary size, and uniform numbers that cannot reach a tail. These cases also suit samplers
/// that report only tokens (value_cases.cpp).
std::vector<NamedCase> value_cases();

}  // namespace fairdraw::suites
