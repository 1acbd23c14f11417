// tile_index (fairdraw/tile_index.h) on an NVIDIA GPU gives the CPU's keys and sums bit for bit, in
// one pass at the speed of memory.
//
// The contract is that of fairdraw/cuda.h. Every pointer of the request and of the result is device
// memory (or managed memory), and a pointer of another kind is an error that names it. The call
// enqueues one kernel and returns; it never synchronises, never allocates, and can be captured in a
// CUDA graph, whose replays read the arrays again. The call needs no workspace. Less than 2^22
// rows.
//
// This header can be included without the CUDA toolkit.
//
// Errors: tile_index() returns the codes of fairdraw/cuda.h; statuses are those of
// fairdraw/tile_index.h.
//
// Definition: fairdraw/tile_index.h.
#pragma once

#include "fairdraw/tile_index.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// `stream` is a cudaStream_t of the current device, or null for the default stream.
Error tile_index(const TileIndexRequest& request, const TileIndexResult& result,
                 void* stream = nullptr);

}  // namespace fairdraw::cuda
