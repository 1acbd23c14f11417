// The part of the table on operations on rows: softmax, masks, renormalised probabilities.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Ids are not filled in.
std::vector<NamedCase> row_operation_cases();

/// True for checks of one operation on rows, which draws no tokens.
bool is_row_operation(Check check);

}  // namespace fairdraw::suites
