// check_stop (fairdraw/stop_criteria.h) on an NVIDIA GPU, after the draw of a step: the host need
// not see its tokens before it is known which requests have ended.
//
// The contract is that of fairdraw/cuda.h: every pointer of the request and of the result is device
// memory (or managed memory), one of another kind is an error that names it; the call enqueues one
// kernel and returns, never synchronises, never allocates, and can be captured in a CUDA graph,
// whose replays read the arrays again. No workspace is needed.
//
// This header needs no CUDA header.
//
// Errors: check_stop() returns the codes of fairdraw/cuda.h; statuses are those of
// fairdraw/stop_criteria.h.
//
// Definition: fairdraw/stop_criteria.h.
#pragma once

#include "fairdraw/stop_criteria.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Same requests, same results. `stream`: a cudaStream_t of the current device; null: the default
/// one. result.output_lengths may be request.output_lengths, so that a replayed graph counts on.
Error check_stop(const StopRequest& request, const StopResult& result, void* stream = nullptr);

}  // namespace fairdraw::cuda
