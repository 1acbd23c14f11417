// The part of the table on requests that come and go.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Running batches of samplers that keep their requests. Ids are not filled in.
std::vector<NamedCase> sequence_cases();

}  // namespace fairdraw::suites
