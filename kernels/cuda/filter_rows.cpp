// Host side of the row kernel: how a call is spread over the GPU, and its launch.
#include "filter_rows.h"

#include <algorithm>

#include "row_shape.h"

namespace fairdraw::cuda {
namespace {

/// Shared memory that the runtime keeps of every block.
constexpr int kReservedBytes = 1024;
/// Static shared memory of the kernel, rounded up (BlockMemory).
constexpr int kStaticBytes = 11264;

int value_bytes(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

}  // namespace

int dynamic_bytes(const RowShape& shape, int threads) {
  return shape.resident * threads * 16 + list_bytes(shape.list_capacity) +
         scratch_bytes(threads, shape.blocks);
}

Spread spread_rows(const RowsTask& task, int blocks, int threads, int blocks_per_multiprocessor,
                   bool bulk_copies, const GpuLimits& gpu) {
  const int per_vector = 16 / value_bytes(task.rows.dtype);
  // A row that starts anywhere: up to per_vector - 1 absent values before it.
  const auto vectors = static_cast<int>((task.rows.vocab + 2 * per_vector - 2) / per_vector);
  const int vectors_a_step = blocks * threads;
  Spread spread{};
  spread.threads = threads;
  RowShape& shape = spread.shape;
  shape.blocks = blocks;
  shape.bulk_copies = bulk_copies;
  shape.list_capacity = blocks >= 8 ? 4096 : 2048;
  shape.steps = (vectors + vectors_a_step - 1) / vectors_a_step;
  const int of_block =
      std::min(gpu.shared_bytes_of_block,
               gpu.shared_bytes_of_multiprocessor / blocks_per_multiprocessor - kReservedBytes);
  shape.resident = 0;
  const int room = of_block - kStaticBytes - dynamic_bytes(shape, threads);
  shape.resident = std::clamp(room / (threads * 16), 0, shape.steps);
  return spread;
}

}  // namespace fairdraw::cuda
