// Operations of fairdraw/sampling.h and fairdraw/cuda.h that are calls of the batch engines. Each
// operation is defined once, and the `Execution` of each namespace selects the run_operation of its
// backend.
#include "common/operation_calls.h"
#include "fairdraw/cuda.h"

namespace fairdraw {
#include "common/sampling_operations.inc"
}  // namespace fairdraw

namespace fairdraw::cuda {
#include "common/sampling_operations.inc"
}  // namespace fairdraw::cuda
