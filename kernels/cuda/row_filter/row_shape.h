// How many blocks, threads and steps a row gets. Host side of the row kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/row_filter/filter_rows.h"
#include "cuda/row_filter/row_tuning.h"

namespace fairdraw::cuda {

/// How a launch spreads a row. The same for all of its rows.
struct RowShape {
  int blocks;         ///< that share a row
  int warp_vectors;   ///< vectors of 16 bytes that a warp owns
  int steps;          ///< of each warp: 32 vectors, the last perhaps fewer
  int resident;       ///< steps in shared memory
  int list_capacity;  ///< candidates that a row has room for, ids included
  bool bulk_copies;   ///< compute capability 9.0
};

struct Spread {
  RowShape shape;
  int threads;             ///< of a block: 512 or 1024
  int most_dynamic_bytes;  ///< of a block, on this device
};

struct GpuLimits {
  int multiprocessors;
  int shared_bytes_of_block;           ///< most that a block can ask for
  int shared_bytes_of_multiprocessor;  ///< shared by its blocks
};

}  // namespace fairdraw::cuda
