// Defines fairdraw._core, which gives the kernels and the gate to fairdraw's Python files.
// Operations take their arguments by name and check every property that C++ relies on. Default
// values, unseeded calls and new arrays are left to the Python files.
#include <nanobind/nanobind.h>

#include "python/bindings/bindings.h"

NB_MODULE(_core, module) {
  module.attr("__version__") = FAIRDRAW_VERSION;
  fairdraw::python::bind_enums(module);
  fairdraw::python::bind_operations(module);
  fairdraw::python::bind_batch(module);
  fairdraw::python::bind_draft_batch(module);
  fairdraw::python::bind_serving(module);
  fairdraw::python::bind_fuzz(module);
  fairdraw::python::bind_identify(module);
  fairdraw::python::bind_expected_row(module);
  fairdraw::python::bind_verify(module);
}
