// Rows of a sharded call: the allocation of their arrays in a workspace, and their index.
#pragma once

#include <cuda_runtime_api.h>

#include "common/bump_allocator.h"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/filter_rows.h"
#include "cuda/tiles/tile_spread.h"
#include "fairdraw/cuda_sharded.h"

namespace fairdraw::cuda {

/// Processed columns of a shard, which the kernels of a sharded row read in place of the caller's.
struct ProcessedColumns {
  RowsTask edits;    ///< task of edit_rows; its `edits` is not set if nothing is processed
  FloatRows values;  ///< the processed columns
};

/// Returns a call's processing, without the arrays of columns if a shard has no columns, because
/// such arrays may have any address.
LogitsProcessing processing_of_columns(const SampleRequest& rows);

/// Allocates the arrays of a call's rows in a workspace, or only measures them. Exchange blocks are
/// only measured (task.bytes).
void place_sharded_rows(const ShardedRequest& request, const SampleResult& result,
                        ShardedTask& task, ProcessedColumns& processed, BumpAllocator& memory);

/// Allocates the blocks that this rank sends and receives, after the rows' arrays.
void place_sharded_blocks(ShardedTask& task, BumpAllocator& memory);

/// Enqueues a kernel that sets the number of undecided rows to 0.
Error decide_none(const ShardedTask& task, cudaStream_t stream);

/// Enqueues the kernels that process and index the rows, which are the first of a call.
Error index_sharded_rows(const ShardedTask& task, const ProcessedColumns& processed,
                         const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
