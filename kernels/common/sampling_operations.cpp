// The operations of fairdraw/sampling.h and fairdraw/cuda.h that are calls of the batch engines,
// each defined once: the `Execution` of each namespace selects the backend's run_operation.
#include "common/operation_calls.h"
#include "fairdraw/cuda.h"

namespace fairdraw {
#include "common/sampling_operations.inc"
}  // namespace fairdraw

namespace fairdraw::cuda {
#include "common/sampling_operations.inc"
}  // namespace fairdraw::cuda
