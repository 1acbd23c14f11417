// Masks, renormalised probabilities and masked logits of filtered rows.
//
// Contract. For each row with status ok: mask bits of the survivors (bits beyond the vocabulary are
// 0), probabilities (float)((double)w / (double)total), 0 outside the support, and a copy of the
// values in their own dtype with -inf for what was dropped. A greedy row is one-hot. A failed row
// has mask and probabilities 0 and all masked values -inf; an inactive row is left untouched but
// for its status. Words and values between vocab and the row stride are never written. `masked`
// may be the rows themselves: a thread reads and writes its own value only.
//
// Algorithm and cost. One launch, a tile of kTokensABlock tokens a block, kTokensAWarp a warp, a
// lane a token at a time: the row is read once, whatever is written. A warp's votes are words of
// the mask, gathered so that lanes write words side by side.
//
// Numerics. One division a survivor, in double, rounded once, then to float32: the same bits as
// on the CPU. Determinism: no two threads write the same word, nothing is summed.
#include <cstdint>

#include "common/minus_infinity.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/outputs/write_rows.h"
#include "cuda/row_filter/filtered_row.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWordsAWarp = 8;
constexpr int kTokensAWarp = kWordsAWarp * kWarp;
constexpr int kTokensABlock = kThreads / kWarp * kTokensAWarp;

/// Stores a value's bits at any byte address.
__device__ void store_bits(unsigned char* at, std::uint32_t bits, std::int64_t size) {
  if (is_aligned(at, size)) {
    if (size == 4) {
      *reinterpret_cast<std::uint32_t*>(at) = bits;
    } else {
      *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(bits);
    }
    return;
  }
  for (std::int64_t byte = 0; byte < size; ++byte) {
    at[byte] = static_cast<unsigned char>(bits >> (8 * byte));
  }
}

__device__ float probability_of(const FilteredRow& row, const RowRecord& record, float x) {
  if (record.greedy_token >= 0) return 1.0F;
  const double weight = static_cast<double>(row.weigh(x));
  return static_cast<float>(__ddiv_rn(weight, static_cast<double>(record.total)));
}

/// One lane's token: writes its probability and masked value; true where the token survives.
__device__ bool write_token(const RowsOutputTask& task, std::int64_t number, const FilteredRow& row,
                            const RowRecord& record, std::int64_t token) {
  const bool ok = record.status == RowStatus::ok;
  const float x = ok ? row.value(token) : 0.0F;
  const bool kept = ok && row.keeps(token, x);
  if (task.probs.given()) {
    task.probs.data[number * task.probs.row_stride + token] =
        kept ? probability_of(row, record, x) : 0.0F;
  }
  if (task.masked != nullptr) {
    const std::int64_t size = value_size(row.values.dtype);
    unsigned char* at =
        static_cast<unsigned char*>(task.masked) + (number * task.masked_row_stride + token) * size;
    // Masked logits are the caller's own: no call of theirs is processed.
    store_bits(at, kept ? row.values.bits(token) : minus_infinity_bits(row.values.dtype), size);
  }
  return kept;
}

__global__ void __launch_bounds__(kThreads)
    write_rows_kernel(RowsOutputTask task, std::int64_t blocks_a_row) {
  const std::int64_t number = blockIdx.x / blocks_a_row;  // of the row
  const std::int64_t tile = blockIdx.x % blocks_a_row;
  const std::int64_t vocab = task.filtered.rows.vocab;
  const RowRecord record = task.filtered.records[number];
  if (tile == 0 && threadIdx.x == 0 && task.statuses != nullptr) {
    task.statuses[number] = record.status;
  }
  if (record.status == RowStatus::inactive) return;

  // In a failed row only the values count, and all of them are dropped.
  const FilteredRow row = FilteredRow::of(task.filtered, number);
  const std::int64_t begin = tile * kTokensABlock + warp_of_thread() * kTokensAWarp;
  std::uint32_t my_word = 0;
  for (int word = 0; word < kWordsAWarp; ++word) {
    const std::int64_t token = begin + word * kWarp + lane_of_thread();
    const bool kept = token < vocab && write_token(task, number, row, record, token);
    const std::uint32_t votes = __ballot_sync(kAllLanes, kept);
    if (lane_of_thread() == word) my_word = votes;
  }
  const std::int64_t word = begin / kWarp + lane_of_thread();
  if (task.mask.given() && lane_of_thread() < kWordsAWarp && word * kWarp < vocab) {
    task.mask.data[number * task.mask.row_stride + word] = my_word;
  }
}

}  // namespace

cudaError_t write_rows(const RowsOutputTask& task, cudaStream_t stream) {
  const std::int64_t blocks_a_row = (task.filtered.rows.vocab + kTokensABlock - 1) / kTokensABlock;
  // Less than 2^22 rows of 512 tiles: below the largest grid, 2^31 - 1.
  return launch_clusters(write_rows_kernel, task.filtered.rows.rows * blocks_a_row, 1, kThreads,
                         stream, task, blocks_a_row);
}

cudaError_t compiled_capability(int& capability) {
  cudaFuncAttributes attributes{};
  const cudaError_t answer = cudaFuncGetAttributes(&attributes, write_rows_kernel);
  capability = attributes.ptxVersion;
  return answer;
}

}  // namespace fairdraw::cuda
