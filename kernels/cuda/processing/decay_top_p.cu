// Finds the top_p of rows whose top_p decays (top_p_decay in fairdraw/logits_processing.h).
//
// Contract. Every active row gets the top_p that the CPU gives it, bit for bit (top_p_now in
// common/processing_rules.h). A row that is not active keeps the request's own.
//
// Algorithm and cost. Each row has one warp, whose lanes look for the last id that resets the
// top_p; then one lane multiplies. The products depend on each other, so a row takes time in
// proportion to its ids since the reset, until top_p_min is reached. Calls without a decay do not
// launch this kernel.
//
// The row kernel reads its parameters before it waits for edit_rows. So this kernel is one of its
// own, which ends before edit_rows begins, as the kernel that writes the parameters of drafts does.
//
// Determinism: places are found by an integer maximum, and one lane multiplies in the CPU's order.
#include "common/processing_rules.h"
#include "cuda/device/row_launch.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/processing/decay_top_p.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRowsOfBlock = kThreads / kWarp;

/// Returns the number of ids after the last one that resets the top_p, with all lanes of a warp.
__device__ std::int32_t ids_after_reset(const RowList& output, std::int32_t reset) {
  int last = -1;
#pragma unroll 8
  for (int i = lane_of_thread(); reset >= 0 && i < output.length; i += kWarp) {
    if (output.ids[i] == reset) last = i;
  }
  return output.length - 1 - reduce_warp(last, Maximum{});
}

__global__ void __launch_bounds__(kThreads)
    decay_top_p_kernel(const __grid_constant__ DecayTask task) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsOfBlock + warp_of_thread();
  if (row >= task.rows) return;
  float top_p = task.top_p.at(row);
  const bool is_active = !task.active.given() || task.active.data[row] != 0;
  const HistoryRules rules = HistoryRules::of(task.processing, row);
  if (is_active && rules.top_p_decay != 1.0F) {
    const RowList output = list_of(task.processing.output, row);
    top_p = decayed_top_p(top_p, rules, ids_after_reset(output, rules.top_p_reset_id));
  }
  if (lane_of_thread() == 0) task.now[row] = top_p;
}

}  // namespace

cudaError_t decay_top_p(const DecayTask& task, cudaStream_t stream) {
  const std::int64_t blocks = (task.rows + kRowsOfBlock - 1) / kRowsOfBlock;
  return launch_clusters(decay_top_p_kernel, blocks, 1, kThreads, stream, task);
}

}  // namespace fairdraw::cuda
