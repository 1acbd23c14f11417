// Interface of the kernels that verify drafted tokens (chain_speculative_sampling.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/row_filter/filter_rows.h"

namespace fairdraw::cuda {

struct ChainTask {
  ChainSpeculativeRequest request;
  ChainSpeculativeResult result;
  RowRecord* records = nullptr;  ///< room for one a row: all target rows, then all draft rows

  /// Draft rows; where there are none the view of them is not looked at.
  __host__ __device__ std::int64_t draft_rows() const {
    return request.batch * request.num_draft_tokens;
  }
};

/// Enqueues the kernels; batch in [1, 2^22), fewer than 2^22 rows of each kind. Returns the first
/// launch error.
cudaError_t verify_chains(const ChainTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
