// Test kernels that give the values which speculation derives from a filtered row on the GPU:
// weights and their total.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/rows/filtered_rows.h"

namespace fairdraw::suites {

/// Arrays in device memory for relative weights.
struct RelativeWeights {
  std::uint64_t* of_tokens;  ///< [vocab]
  std::uint64_t* bounds;     ///< [2]: lower and upper bound of the total, known before the weights
                             ///< are summed
  std::uint64_t* total;      ///< [1], summed
};

/// Computes the weights of row 0 by `blocks` thread blocks, as a cluster if there are several.
cudaError_t relative_weights(const cuda::FilteredRows& rows, const RelativeWeights& result,
                             int blocks);

}  // namespace fairdraw::suites
