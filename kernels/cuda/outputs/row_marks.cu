// Kernels on the marks of rows beside their draws: one finds the marks of all rows, one the green
// tokens of marked rows, and one fails the rows whose output is wrong (fairdraw/watermark.h).
//
// Contract. The kernels find_marks and find_green_tokens run before edit_rows and the row kernel,
// and need only arrays of the call. fail_marked_rows runs after the row kernel. If a call may have
// rows with top_p alone, find_marks also chooses the open rows (mark_rows.cu).
//
// Algorithm and cost. A block finds the mark of a row: its first warp computes the context's key,
// and the others look at the ids of the output. For green tokens, each thread computes the words of
// some tokens, and each warp writes words of bits: 70 instructions per token, on the whole GPU.
//
// Determinism: all values are integers, and each is written once.
#include <cstdint>

#include "common/parameters.h"
#include "cuda/device/row_launch.h"
#include "cuda/outputs/mark_rows.h"
#include "cuda/outputs/row_marks.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kMarkThreads = 128;   ///< threads of a block that finds the mark of a row
constexpr int kGreenThreads = 256;  ///< threads of a block that finds green tokens
constexpr int kGreenTokens = 4;     ///< tokens per thread, so that calls of few rows have enough
                                    ///< blocks for the GPU
constexpr int kFailThreads = 128;   ///< rows of a block of fail_marked_rows

/// Returns whether a row whose parameters are in range draws by proposals, with top_p alone.
__device__ bool has_top_p_alone(const MarkRowsTask& task, const OpenRows& open, std::int64_t row) {
  const float top_p = open.asked.at(row);
  return top_p > 0.0F && top_p < 1.0F && open.min_p.at(row) == 0.0F &&
         task.filtered.temperature.at(row) > 0.0F && open.top_k.at(row) != 1 &&
         !top_k_is_on(open.top_k.at(row), task.filtered.rows.vocab);
}

__global__ void __launch_bounds__(kMarkThreads)
    find_marks_kernel(const __grid_constant__ MarkRowsTask task) {
  __shared__ int has_stranger, is_repeated;
  const std::int64_t row = blockIdx.x;
  if (threadIdx.x == 0) has_stranger = is_repeated = 0;
  __syncthreads();
  const RowMark found = mark_of(task, row, kMarkThreads, has_stranger, is_repeated);
  __syncthreads();
  if (threadIdx.x != 0) return;
  const OpenRows& open = task.open;
  const RowMark mark = mark_with(found, has_stranger, is_repeated);
  task.marks[row] = mark;
  if (open.top_p == nullptr) return;
  const bool opens = mark.fate == MarkFate::marked && has_top_p_alone(task, open, row);
  open.top_p[row] = opens ? 1.0F : open.asked.at(row);
}

/// Finds the green tokens of kGreenThreads * kGreenTokens tokens of a row.
__global__ void __launch_bounds__(kGreenThreads)
    find_green_tokens_kernel(const __grid_constant__ GreenTask task, int blocks_of_row) {
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(blocks_of_row);
  const auto part = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks_of_row));
  const RowMark mark = task.marks[row];
  const int first = part * kGreenThreads * kGreenTokens + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kGreenTokens; ++i) {
    const int token = first + i * kGreenThreads;
    const bool is_green = mark.fate == MarkFate::marked && token < task.vocab &&
                          keyed_word(mark.context_key, token) < task.limit;
    const unsigned word = __ballot_sync(kAllLanes, is_green);
    if (lane_of_thread() == 0 && token < task.vocab) {
      task.bits[row * task.words_of_row + token / 32] = word;
    }
  }
}

__global__ void __launch_bounds__(kFailThreads)
    fail_marked_rows_kernel(const __grid_constant__ MarkRowsTask task) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kFailThreads + threadIdx.x;
  if (row >= task.filtered.rows.rows) return;
  if (fails(task.marks[row], task.records[row].status)) fail(task, row);
}

}  // namespace

cudaError_t find_marks(const MarkRowsTask& task, cudaStream_t stream) {
  return launch_clusters(find_marks_kernel, task.filtered.rows.rows, 1, kMarkThreads, stream, task);
}

cudaError_t find_green_tokens(const GreenTask& task, cudaStream_t stream) {
  constexpr int kTokensOfBlock = kGreenThreads * kGreenTokens;
  const int blocks_of_row = (task.vocab + kTokensOfBlock - 1) / kTokensOfBlock;
  return launch_clusters(find_green_tokens_kernel, task.rows * blocks_of_row, 1, kGreenThreads,
                         stream, task, blocks_of_row);
}

cudaError_t fail_marked_rows(const MarkRowsTask& task, cudaStream_t stream) {
  const std::int64_t blocks = (task.filtered.rows.rows + kFailThreads - 1) / kFailThreads;
  return launch_clusters(fail_marked_rows_kernel, blocks, 1, kFailThreads, stream, task);
}

}  // namespace fairdraw::cuda
