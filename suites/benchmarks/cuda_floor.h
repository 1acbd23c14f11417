// What no sampler on a GPU can be faster than: one kernel that reads the logits once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::suites {

/// A launch of the floor's kernel. Which is fastest depends on the size; the benchmark tries them.
struct FloorShape {
  int threads = 0;          ///< a block
  int loads = 0;            ///< of 16 bytes, in flight a thread: 1, 2, 4 or 8
  std::int64_t blocks = 0;  ///< they take the tiles in turns
};

/// The shapes worth a try for `bytes` bytes: a block a tile, and as many blocks as are resident.
std::vector<FloorShape> floor_shapes(std::int64_t bytes, int multiprocessors);

/// Reads `bytes` bytes (less what does not fill 16) at `data`, aligned to 16, once; writes the
/// largest value that each block saw to largest[0 .. shape.blocks). Returns the launch's error.
cudaError_t read_once(const void* data, DType dtype, std::int64_t bytes, const FloorShape& shape,
                      float* largest, cudaStream_t stream);

/// Adds 1 to each of `count` offsets: what an engine does between two replays of a graph.
cudaError_t advance_offsets(std::uint64_t* offsets, std::int64_t count, cudaStream_t stream);

}  // namespace fairdraw::suites
