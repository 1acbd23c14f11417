// How many blocks, threads and steps a row gets. Host side of the row kernel.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/row_filter/filter_rows.h"

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

/// Most candidates that are listed with their ids.
inline constexpr int kMaxListed = 4096;
/// Bins of the sample that guesses a nucleus (filter_rows.cuh): a word each, from every block.
inline constexpr int kSampleBins = 512;
/// Listed values that a warp can note before they are sent (filter_rows.cuh).
inline constexpr int kStagedPerWarp = 128;

/// Bytes of dynamic shared memory behind the resident steps: the list of candidates, a value and
/// an id each; and the scratch, where the sample lies, and what is
/// staged.
constexpr int list_bytes(int list_capacity) { return list_capacity * 8; }
constexpr int scratch_bytes(int threads, int blocks) {
  const int samples = blocks * kSampleBins * 4;
  const int staged = threads / 32 * kStagedPerWarp * 2;
  return samples > staged ? samples : staged;
}
/// Static shared memory of the kernel, rounded up (BlockMemory).
inline constexpr int kStaticBytes = 11264;

/// All dynamic shared memory.
int dynamic_bytes(const RowShape& shape, int threads);

/// The shape for given numbers of blocks and threads: as many resident steps as fit.
Spread spread_rows(const RowsTask& task, int blocks, int threads, int blocks_per_multiprocessor,
                   bool bulk_copies, const GpuLimits& gpu);

/// kProcessed: task.edits is given.
template <DType kType, bool kFromProbs, bool kProcessed>
cudaError_t launch_filter_rows(const RowsTask& task, const Spread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
