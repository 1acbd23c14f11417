// The lower bound of the time of every sampler on a GPU is one kernel that reads the logits once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::suites {

/// The launch configuration of the floor's kernel. The fastest configuration depends on the size,
/// so the benchmark tries several configurations.
struct FloorShape {
  int threads = 0;          ///< per block
  int loads = 0;            ///< number of 16-byte loads in flight per thread: 1, 2, 4 or 8
  std::int64_t blocks = 0;  ///< number of thread blocks, which take the tiles in turn
};

/// Returns the configurations to try for `bytes` bytes: one block per tile, and as many blocks as
/// are resident at once.
std::vector<FloorShape> floor_shapes(std::int64_t bytes, int multiprocessors);

/// Reads `bytes` bytes at `data` once (without an incomplete last group of 16 bytes), and writes
/// the largest value of each block to largest[0 .. shape.blocks). Precondition: the address `data`
/// is a multiple of 16 bytes. Returns the error of the launch.
cudaError_t read_once(const void* data, DType dtype, std::int64_t bytes, const FloorShape& shape,
                      float* largest, cudaStream_t stream);

/// Adds 1 to each of `count` offsets, as an engine does between two replays of a graph.
cudaError_t advance_offsets(std::uint64_t* offsets, std::int64_t count, cudaStream_t stream);

}  // namespace fairdraw::suites
