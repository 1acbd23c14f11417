// Finds the temperature of rows whose temperature follows the entropy (dynatemp_range in
// fairdraw/logits_processing.h).
//
// Contract. Every active row gets the temperature that the CPU gives it, bit for bit
// (common/dynamic_temperature.h). A row that is not active keeps the
// request's own.
//
// Algorithm and cost. edit_rows has the sums of the row, and leaves the share of the entropy. Here
// each row has one thread. The row kernel reads its parameters before it waits for the kernel
// before it. So a call with such a temperature starts its row kernel after this kernel has ended
// (RowsTask::parameters_come_late), and calls without one do not launch this kernel.
#include "common/dynamic_temperature.h"
#include "cuda/device/row_launch.h"
#include "cuda/processing/follow_entropy.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    follow_entropy_kernel(const __grid_constant__ TemperatureTask task) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= task.rows) return;
  float temperature = task.temperature.at(row);
  const bool is_active = !task.active.given() || task.active.data[row] != 0;
  if (is_active) {
    const ProbabilityFilters filters = ProbabilityFilters::of(task.processing, row);
    temperature = dynamic_temperature(temperature, filters, task.shares[row]);
  }
  task.now[row] = temperature;
}

}  // namespace

cudaError_t follow_entropy(const TemperatureTask& task, cudaStream_t stream) {
  const std::int64_t blocks = (task.rows + kThreads - 1) / kThreads;
  return launch_clusters(follow_entropy_kernel, blocks, 1, kThreads, stream, task);
}

}  // namespace fairdraw::cuda
