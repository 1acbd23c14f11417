// check_stop (fairdraw/stop_criteria.h) on an NVIDIA GPU runs after the draw of a step. So the host
// can learn which requests have ended before it has seen the step's tokens.
//
// The contract is that of fairdraw/cuda.h. Every pointer of the request and of the result is device
// memory (or managed memory), and a pointer of another kind is an error that names it. The call
// enqueues one kernel and returns; it never synchronises, never allocates, and can be captured in a
// CUDA graph, whose replays read the arrays again. The call needs no workspace.
//
// This header can be included without the CUDA toolkit.
//
// Errors: check_stop() returns the codes of fairdraw/cuda.h; statuses are those of
// fairdraw/stop_criteria.h.
//
// Definition: fairdraw/stop_criteria.h.
#pragma once

#include "fairdraw/stop_criteria.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Gives the same results as the CPU for the same requests. `stream`: a cudaStream_t of the current
/// device; null: the default stream. result.output_lengths may be request.output_lengths, so that
/// the lengths advance with each replay of a graph.
Error check_stop(const StopRequest& request, const StopResult& result, void* stream = nullptr);

}  // namespace fairdraw::cuda
