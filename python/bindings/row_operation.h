// Operations on rows that are functions of Python: fn(rows, parameter), fn(rows) for log-softmax.
#pragma once

#include <string>

#include "harness/contract/operation.h"
#include "python/bindings/callable.h"

namespace fairdraw::python {

/// Calls the function of the operation's kind with a view of the rows, lent for the call, and the
/// parameter: a number where the call has one for all rows, else an array [rows]. Takes what it
/// returns, [rows, vocab] of any floats at least as wide as the result; returns why not, where that
/// is something else. With the interpreter's lock.
std::string call_row_operation(Callable& callable, const fairdraw_operation& call);

}  // namespace fairdraw::python
