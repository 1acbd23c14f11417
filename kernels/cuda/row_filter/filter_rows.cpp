// Host side of the row kernel: how a call is spread over the GPU, and its launch.
#include "cuda/row_filter/filter_rows.h"

#include <algorithm>
#include <cstdint>

#include "cuda/row_filter/row_limits.h"
#include "cuda/row_filter/row_shape.h"

namespace fairdraw::cuda {
namespace {

/// Shared memory that the runtime keeps of every block.
constexpr int kReservedBytes = 1024;

int values_of_vector(DType dtype) { return dtype == DType::float32 ? 4 : 8; }

template <bool kFromProbs, bool kProcessed>
cudaError_t launch_for_dtype(const RowsTask& task, const Spread& spread, cudaStream_t stream) {
  switch (task.rows.dtype) {
    case DType::float16:
      return launch_filter_rows<DType::float16, kFromProbs, kProcessed>(task, spread, stream);
    case DType::bfloat16:
      return launch_filter_rows<DType::bfloat16, kFromProbs, kProcessed>(task, spread, stream);
    case DType::float32:
      break;
  }
  return launch_filter_rows<DType::float32, kFromProbs, kProcessed>(task, spread, stream);
}

cudaError_t launch(const RowsTask& task, const Spread& spread, cudaStream_t stream) {
  if (task.from_probs) return launch_for_dtype<true, false>(task, spread, stream);
  if (task.edits.given()) return launch_for_dtype<false, true>(task, spread, stream);
  return launch_for_dtype<false, false>(task, spread, stream);
}

/// How many blocks of how many threads, and how many of them share a multiprocessor.
struct Blocks {
  int of_row, threads, on_multiprocessor;
};

/// One block a row. A narrow row does not keep 1024 threads busy.
Blocks single_block(std::int64_t vectors) {
  return vectors <= kNarrowRow ? Blocks{1, 512, 2} : Blocks{1, 1024, 1};
}

/// By measurement (reports/baselines): few rows are cut into many parts, because time is what one
/// row takes; many rows into few, because every part costs its exchanges. One block a
/// multiprocessor where the rows leave room, or need it: it has all shared memory.
Blocks cluster_blocks(std::int64_t rows, std::int64_t vectors, int multiprocessors) {
  if (vectors <= kNarrowRow) return single_block(vectors);
  const auto most_blocks = [&](int most, int threads) {  // each thread has a vector
    int blocks = 1;
    while (blocks < most && std::int64_t{2} * blocks * threads <= vectors) blocks *= 2;
    return blocks;
  };
  if (rows * 8 <= multiprocessors) return {most_blocks(8, 512), 512, 1};
  if (rows * 5 <= multiprocessors) return {most_blocks(4, 1024), 1024, 1};
  if (rows * 2 > multiprocessors && vectors <= kHalfBlockRow) return {most_blocks(2, 512), 512, 2};
  return {most_blocks(2, 1024), 1024, 1};
}

}  // namespace

std::int64_t vectors_of(const RowsView& rows) {
  const int values = values_of_vector(rows.dtype);
  const bool aligned = reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 &&
                       (rows.rows == 1 || rows.row_stride % values == 0);
  return (rows.vocab + (aligned ? values - 1 : 2 * values - 2)) / values;
}

cudaError_t limits_of_device(GpuLimits& gpu) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  const auto ask = [&](int& value, cudaDeviceAttr attribute) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&value, attribute, device);
  };
  ask(gpu.multiprocessors, cudaDevAttrMultiProcessorCount);
  ask(gpu.shared_bytes_of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  ask(gpu.shared_bytes_of_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return error;
}

int dynamic_bytes(const RowShape& shape, int threads) {
  return shape.resident * threads * 16 + list_bytes(shape.list_capacity) +
         scratch_bytes(threads, shape.blocks);
}

Spread spread_rows(const RowsTask& task, int blocks, int threads, int blocks_per_multiprocessor,
                   bool bulk_copies, const GpuLimits& gpu) {
  const auto vectors = static_cast<int>(vectors_of(task.rows));
  const int warps = blocks * threads / 32;
  Spread spread{};
  spread.threads = threads;
  RowShape& shape = spread.shape;
  shape.blocks = blocks;
  shape.bulk_copies = bulk_copies;
  shape.list_capacity = task.rows.vocab > kWideVocab ? 6144 : blocks >= 8 ? kMaxListed : 2048;
  shape.warp_vectors = (vectors + warps - 1) / warps;
  shape.steps = (shape.warp_vectors + 31) / 32;
  const int of_block =
      std::min(gpu.shared_bytes_of_block,
               gpu.shared_bytes_of_multiprocessor / blocks_per_multiprocessor - kReservedBytes);
  spread.most_dynamic_bytes = gpu.shared_bytes_of_block - kStaticBytes;
  shape.resident = 0;
  const int room = of_block - kStaticBytes - dynamic_bytes(shape, threads);
  shape.resident = std::clamp(room / (threads * 16), 0, shape.steps);
  return spread;
}

cudaError_t filter_rows(const RowsTask& task, Path path, cudaStream_t stream) {
  GpuLimits gpu{};
  if (const cudaError_t error = limits_of_device(gpu); error != cudaSuccess) return error;
  const bool clusters = path != Path::block;
  const std::int64_t vectors = vectors_of(task.rows);
  const Blocks blocks = clusters ? cluster_blocks(task.rows.rows, vectors, gpu.multiprocessors)
                                 : single_block(vectors);
  const Spread spread =
      spread_rows(task, blocks.of_row, blocks.threads, blocks.on_multiprocessor, clusters, gpu);
  return launch(task, spread, stream);
}

}  // namespace fairdraw::cuda
