// Rows of a sharded call: the places of their arrays in a workspace, and their index.
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
  RowsTask edits;    ///< task of edit_rows; without `edits` if nothing is processed
  FloatRows values;  ///< the processed columns
};

/// Returns a call's processing, without arrays of columns if a shard has none: they may be
/// anywhere.
LogitsProcessing processing_of_columns(const SampleRequest& rows);

/// Places the arrays of a call's rows in a workspace, or measures them. Blocks are only measured
/// (task.bytes).
void place_sharded_rows(const ShardedRequest& request, const SampleResult& result,
                        ShardedTask& task, ProcessedColumns& processed, BumpAllocator& memory);

/// Places this rank's blocks and the received ones, after the rows.
void place_sharded_blocks(ShardedTask& task, BumpAllocator& memory);

/// Enqueues a reset of the number of undecided rows.
Error decide_none(const ShardedTask& task, cudaStream_t stream);

/// Enqueues the processing and the index, with which rows begin.
Error index_sharded_rows(const ShardedTask& task, const ProcessedColumns& processed,
                         const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
