// A request of a batch as Python has it.
#pragma once

#include <nanobind/nanobind.h>

#include "fairdraw/batch_state.h"

namespace fairdraw::python {

/// The fields of BatchRequest in the order of Python's dataclass.
nanobind::tuple tuple_of(const BatchRequest& request);

}  // namespace fairdraw::python
