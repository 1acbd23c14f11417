// Allocates the arrays for the rows of a sharded call in a workspace, and indexes the rows.
#pragma once

#include <cuda_runtime_api.h>

#include "common/bump_allocator.h"
#include "cuda/device/tile_spread.h"
#include "cuda/processing/decay_top_p.h"
#include "cuda/processing/edit_rows.h"
#include "cuda/sharded/sharded_task.h"
#include "fairdraw/cuda_sharded.h"

namespace fairdraw::cuda {

/// Processed columns of a shard, and the top_p of its rows, which the kernels of a sharded call
/// read in place of the caller's.
struct ProcessedColumns {
  DecayTask decay;   ///< task of decay_top_p, which has no rows if no top_p of the call decays
  EditTask edits;    ///< task of edit_rows; the member `edits` is not set if the call has no logits
                     ///< processing
  FloatRows values;  ///< the processed columns
};

/// Returns the logits processing of a call. If the shard has no columns, the result does not have
/// the arrays of columns, because such arrays may have any address.
LogitsProcessing processing_of_columns(const SampleRequest& rows);

/// Allocates the arrays for the rows of a call in a workspace, or only computes their size. For
/// exchange blocks, only the size is computed (task.bytes).
void place_sharded_rows(const ShardedRequest& request, const SampleResult& result,
                        ShardedTask& task, ProcessedColumns& processed, BumpAllocator& memory);

/// Allocates the blocks that this rank sends and receives, after the arrays of the rows.
void place_sharded_blocks(ShardedTask& task, BumpAllocator& memory);

/// Enqueues a kernel that sets the number of undecided rows to 0.
Error decide_none(const ShardedTask& task, cudaStream_t stream);

/// Enqueues the kernels that process and index the rows, which are the first kernels of a call.
Error index_sharded_rows(const ShardedTask& task, const ProcessedColumns& processed,
                         const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
