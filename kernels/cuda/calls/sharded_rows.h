// Sharded rows as calls are made of them: where their arrays lie in a workspace, and the index.
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
  RowsTask edits;  ///< what processing changes; its `edits` are not given where it changes nothing
  FloatRows values;  ///< they are written to
};

/// A call's processing, without arrays of columns where a shard has none: they may be anywhere.
LogitsProcessing processing_of_columns(const SampleRequest& rows);

/// The arrays of a call's rows in a workspace, or what they take. Blocks are only measured
/// (task.bytes).
void place_sharded_rows(const ShardedRequest& request, const SampleResult& result,
                        ShardedTask& task, ProcessedColumns& processed, BumpAllocator& memory);

/// This rank's blocks and those of all, behind the rows.
void place_sharded_blocks(ShardedTask& task, BumpAllocator& memory);

/// Enqueues that no row is undecided yet.
Error decide_none(const ShardedTask& task, cudaStream_t stream);

/// Enqueues the processing and the index, with which rows begin.
Error index_sharded_rows(const ShardedTask& task, const ProcessedColumns& processed,
                         const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
