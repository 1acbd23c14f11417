// beam_search_result (fairdraw/beam_search.h) on an NVIDIA GPU: the end of a search whose steps
// were cuda::beam_search_step (fairdraw/cuda_beam_search.h), on the arrays that they left in device
// memory.
//
// The contract is that of fairdraw/cuda.h: every pointer of the request and of the result is device
// memory (or managed memory), one of another kind is an error that names it; the call enqueues one
// kernel and returns, never synchronises, never allocates, and can be captured in a CUDA graph. No
// workspace is needed.
//
// This header needs no CUDA header.
//
// Errors: beam_search_result() returns the codes of fairdraw/cuda.h; statuses are those of
// fairdraw/beam_search.h.
//
// Definition: fairdraw/beam_search.h.
#pragma once

#include "fairdraw/beam_search.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Same sequences as the CPU's. Normalised scores of live beams are the CPU's except for the last
/// unit of the power, which is the device's. `stream`: a cudaStream_t of the current device; null:
/// the default one.
Error beam_search_result(const BeamResultRequest& request, const BeamSequences& result,
                         void* stream = nullptr);

}  // namespace fairdraw::cuda
