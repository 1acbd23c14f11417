// Cases of operations on rows: softmax, masks, renormalised probabilities.
#pragma once

#include <string_view>
#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Returns the cases of row operations, without ids.
std::vector<NamedCase> row_operation_cases();

/// Returns whether a check is of one operation on rows, which draws no tokens.
bool is_row_operation(Check check);
bool is_row_operation(std::string_view check);  ///< by the name of the check

}  // namespace fairdraw::suites
