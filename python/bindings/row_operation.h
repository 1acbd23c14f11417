// Calls row operations that are Python functions: fn(rows, parameter), or fn(rows) for log-softmax.
#pragma once

#include <string>

#include "harness/contract/operation.h"
#include "python/bindings/callable.h"

namespace fairdraw::python {

/// Calls the Python function for the operation's kind with a view of the rows, lent for the call,
/// and the parameter. The parameter is a number if all rows have the same value, otherwise an array
/// [rows]. Takes the function's result, which is [rows, vocab] of a float type at least as wide as
/// the operation's. Returns an empty string, or a message that describes a result of another kind.
/// Precondition: the caller holds the Python interpreter's lock.
std::string call_row_operation(Callable& callable, const fairdraw_operation& call);

}  // namespace fairdraw::python
