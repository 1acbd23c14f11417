// Writes processed rows as an array, for calls in which several kernels read the whole row.
//
// Contract. In every active row, a token has the value that edit_rows gave it, or else the caller's
// value. If the mask or the logits processing bans the token, the value is -inf. If one of the
// caller's logits is NaN or infinite, it stays in its place, even at a banned token, because it
// makes the row fail. A value that became infinite in a processing step is written as -inf, because
// the fault in EditPlanes already makes the row fail.
//
// Algorithm and cost. For each token, the kernel reads the logit and one or two bits, and writes a
// value. So a call makes two more passes over memory than a call without logits processing. The row
// kernel does not need the array, because it reads the edits only once (edit_planes.h). The kernels
// of a sharded call read the row up to five times, from any column on.
//
// Randomness: none. Numerics: values are copied, and nothing is computed. Determinism: each value
// is written to a place of its own.
#include <cmath>
#include <cstdint>

#include "cuda/device/read_value.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/processing/apply_edits.h"
#include "cuda/rows/filtered_row.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTokens = 8;  ///< number of tokens per thread, which gives the GPU enough blocks with
                            ///< enough work each

/// Applies the edits; each block has kThreads * kTokens tokens of a row.
__global__ void __launch_bounds__(kThreads)
    apply_edits_kernel(const __grid_constant__ EditTask task, float* values, std::int64_t stride,
                       int blocks_of_row) {
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(blocks_of_row);
  if (task.active.given() && task.active.data[row] == 0) return;
  const auto part = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks_of_row));
  const auto vocab = static_cast<int>(task.rows.vocab);
  const RowValues raw = RowValues::of(task.rows, row);
  const RowEdits edits = task.edits.of(row);
  const int first = part * kThreads * kTokens + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const int token = first + i * kThreads;
    if (token >= vocab) return;
    float x = raw[token];
    if (x < INFINITY) {
      if (FilteredRow::is_set(edits.edited[token / 32], token)) x = edits.values[token];
      const bool fails = !(x < INFINITY);
      if (fails || !FilteredRow::is_set(edits.allowed[token / 32], token)) x = -INFINITY;
    }
    values[row * stride + token] = x;
  }
}

}  // namespace

cudaError_t apply_edits(const EditTask& task, float* values, std::int64_t stride,
                        cudaStream_t stream) {
  constexpr std::int64_t kTokensOfBlock = std::int64_t{kThreads} * kTokens;
  const std::int64_t blocks_of_row = (task.rows.vocab + kTokensOfBlock - 1) / kTokensOfBlock;
  return launch_clusters(apply_edits_kernel, task.rows.rows * blocks_of_row, 1, kThreads, stream,
                         task, values, stride, static_cast<int>(blocks_of_row));
}

}  // namespace fairdraw::cuda
