// Cases of drafted tokens whose probabilities or logits have 16 bits.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

std::vector<NamedCase> narrow_speculation_cases();

}  // namespace fairdraw::suites
