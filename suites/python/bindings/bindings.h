// The parts of the module fairdraw._core.
#pragma once

#include <nanobind/nanobind.h>

namespace fairdraw::python {

void bind_operations(nanobind::module_& module);   ///< the kernels, by fairdraw/sampling.py
void bind_batch(nanobind::module_& module);        ///< what a callable under test is given
void bind_batch_state(nanobind::module_& module);  ///< what fairdraw/serving.py is made of
void bind_verify(nanobind::module_& module);       ///< the gate, the command line, the model

}  // namespace fairdraw::python
