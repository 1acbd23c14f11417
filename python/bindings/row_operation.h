// Operations on rows as Python functions: fn(rows, parameter), or fn(rows) for log-softmax.
#pragma once

#include <string>

#include "harness/contract/operation.h"
#include "python/bindings/callable.h"

namespace fairdraw::python {

/// Calls the Python function of the operation's kind with a view of the rows, lent for the call,
/// and the parameter: a number if one holds for all rows, otherwise an array [rows]. Takes the
/// function's result, [rows, vocab] of any float type at least as wide as the operation's. Returns
/// an empty string, or a message that says what the function returned instead. Precondition: the
/// caller holds the Python interpreter's lock.
std::string call_row_operation(Callable& callable, const fairdraw_operation& call);

}  // namespace fairdraw::python
