// The values that the GPU's speculation derives from a filtered row, for tests: weights and their
// total.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/filtered_rows.h"

namespace fairdraw::suites {

/// Arrays of relative weights in device memory.
struct RelativeWeights {
  std::uint64_t* of_tokens;  ///< [vocab]
  std::uint64_t* bounds;     ///< [2]: lower and upper bound of the total, before it is summed
  std::uint64_t* total;      ///< [1], summed
};

/// Computes the weights of row 0 by `blocks` blocks, as a cluster if there are several.
cudaError_t relative_weights(const cuda::FilteredRows& rows, const RelativeWeights& result,
                             int blocks);

}  // namespace fairdraw::suites
