// Replaces the serving functions in a build without serving (FAIRDRAW_SERVING=OFF).
#include "python/bindings/bindings.h"
#include "python/bindings/running_batch.h"

namespace fairdraw::python {

namespace nb = nanobind;

void bind_serving(nb::module_& module) { module.attr("HAS_SERVING") = false; }

std::string RunningBatch::run(const fairdraw_event&) {
  return "this build keeps no running batches (FAIRDRAW_SERVING=OFF)";
}

std::string RunningBatch::sample(const fairdraw_batch&) { return run({}); }

}  // namespace fairdraw::python
