// beam_search_result (fairdraw/beam_search.h) on an NVIDIA GPU gives the sequences at the end of a
// search whose steps were cuda::beam_search_step (fairdraw/cuda_beam_search.h). The call reads the
// arrays that the steps left in device memory.
//
// The contract is that of fairdraw/cuda.h. Every pointer of the request and of the result is device
// memory (or managed memory), and a pointer of another kind is an error that names it. The call
// enqueues one kernel and returns; it never synchronises, never allocates, and can be captured in a
// CUDA graph. The call needs no workspace.
//
// This header can be included without the CUDA toolkit.
//
// Errors: beam_search_result() returns the codes of fairdraw/cuda.h; statuses are those of
// fairdraw/beam_search.h.
//
// Definition: fairdraw/beam_search.h.
#pragma once

#include "fairdraw/beam_search.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Gives the same sequences as the CPU. Normalised scores of live beams may differ from the CPU's
/// in the last unit of the power, which the device computes. `stream` is a cudaStream_t of the
/// current device, or null for the default stream.
Error beam_search_result(const BeamResultRequest& request, const BeamSequences& result,
                         void* stream = nullptr);

}  // namespace fairdraw::cuda
