// Sharded rows as other calls are made of them: defined in sharded.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include "common/bump_allocator.h"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/tile_spread.h"
#include "fairdraw/cuda_sharded.h"

namespace fairdraw::cuda {

/// The arrays of a call's rows in a workspace, or what they take. Blocks are only measured
/// (task.bytes): where they lie is the caller's.
void place_sharded_rows(const ShardedRequest& request, const SampleResult& result,
                        ShardedTask& task, BumpAllocator& memory);

/// Enqueues the index, with which rows begin.
Error index_sharded_rows(const ShardedTask& task, const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
