// check_stop on the GPU: its kernel (stop_criteria.cu).
#pragma once

#include <cuda_runtime_api.h>

#include "fairdraw/stop_criteria.h"

namespace fairdraw::cuda {

/// Enqueues the kernel. requests >= 1.
cudaError_t find_stops(const StopRequest& request, const StopResult& result, cudaStream_t stream);

}  // namespace fairdraw::cuda
