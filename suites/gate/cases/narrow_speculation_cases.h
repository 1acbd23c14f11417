// Cases of drafts with 16-bit probabilities and logits.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

std::vector<NamedCase> narrow_speculation_cases();

}  // namespace fairdraw::suites
