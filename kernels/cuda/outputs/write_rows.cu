// Writes masks, renormalised probabilities and masked logits of filtered rows.
//
// Contract. For each row with the status ok, three outputs are written. The mask has the bits of
// the survivors, and bits beyond the vocabulary are 0. The probabilities are those that
// common/tile_weights.h defines, and 0 outside of the support. The masked logits are a copy of the
// values in their own dtype, with -inf for dropped tokens. In a greedy row, the only survivor has
// the probability 1. A failed row has mask and probabilities 0, and all masked logits are -inf. Of
// an inactive row, only the status is written. Words and values between the end of the vocabulary
// and the end of a row's stride are never written. The memory of `masked` may be that of the input
// rows, because each thread reads and writes only its own values.
//
// Algorithm and cost. The kernel is a single launch, in which a block has eight tiles of 256 ids, a
// warp has one tile, and a lane processes one token at a time. The row is read only once, whichever
// outputs are requested. The probability of a survivor depends on the largest value of the row,
// which the row kernel has stored. The votes of a warp are words of the mask, which are collected
// so that lanes write adjacent words.
//
// Numerics. A probability takes one division of doubles per survivor, whose dividend is m times a
// power of two. The quotient is rounded once, and then rounded to float32, which gives the same
// bits as on the CPU. Determinism: no two threads write the same word, and no values are added up.
#include <cstdint>

#include "common/minus_infinity.h"
#include "common/tile_weights.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/outputs/write_rows.h"
#include "cuda/rows/filtered_row.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTilesABlock = kThreads / kWarp;

/// Stores the bits of a value at any byte address.
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

/// Probabilities of the survivors of a row.
template <bool kFromProbs>
class RowProbabilities {
 public:
  __device__ RowProbabilities(const FilteredRows& filtered, std::int64_t number)
      : record_(filtered.records[number]) {
    if (record_.greedy_token >= 0) return;
    if constexpr (kFromProbs) {
      octave_ = octaves_of_probability(record_.max).whole;
    } else {
      scale_ = logit_scale(filtered.temperature.at(number));
      octave_ = octaves_of(record_.max, scale_).whole;
      is_quick_ = float_octaves_are_exact(record_.max, scale_);
      if (is_quick_) origin_ = float_octave_origin(record_.max, scale_);
    }
    total_ = nearest_double(record_.weight());
  }

  /// Returns the probability of a survivor.
  __device__ float operator()(float x) const {
    if (record_.greedy_token >= 0) return 1.0F;
    if constexpr (kFromProbs) {
      return written_probability(octaves_of_probability(x), octave_, total_);
    } else {
      return is_quick_ ? float_written_probability(float_octaves_of(x, scale_), origin_, total_)
                       : written_probability(octaves_of(x, scale_), octave_, total_);
    }
  }

 private:
  const RowRecord& record_;
  float scale_ = 0, origin_ = 0;
  double octave_ = 0;      ///< octave of the largest value of the row
  bool is_quick_ = false;  ///< whether float arithmetic is exact for the row
  double total_ = 0;
};

/// Writes the masked logits of a row, where bit i of `kept` belongs to the i-th token of a lane.
__device__ void write_masked(const RowsOutputTask& task, std::int64_t number,
                             const FilteredRow& row, std::int64_t first, unsigned kept) {
  const std::int64_t size = value_size(row.values.dtype);
  unsigned char* masked =
      static_cast<unsigned char*>(task.masked) + number * task.masked_row_stride * size;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) {
    const std::int64_t token = first + i * kWarp;
    if (token >= row.vocab) return;
    // The masked logits are copies of the caller's values, because calls with masked logits do not
    // support logits processing.
    const bool keeps = ((kept >> i) & 1U) != 0;
    store_bits(masked + token * size,
               keeps ? row.values.bits(token) : minus_infinity_bits(row.values.dtype), size);
  }
}

/// Writes the outputs of a tile, with one warp; if the row has failed, all tokens are dropped.
template <bool kFromProbs>
__device__ void write_tile(const RowsOutputTask& task, std::int64_t number, std::int64_t tile,
                           bool ok) {
  const FilteredRow row = FilteredRow::of(task.filtered, number);
  const std::int64_t first = tile * kTileSize + lane_of_thread();
  float x[kLaneValues];
  unsigned kept = 0;
  if (ok) {
    row.read(first, kWarp, x);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      kept |= row.keeps_read(first + i * kWarp, x[i]) ? 1U << i : 0U;
    }
  }
  if (task.probs.given()) {
    float* probs = task.probs.data + number * task.probs.row_stride;
    const bool any = __any_sync(kAllLanes, kept != 0) != 0;
    float probability[kLaneValues] = {};
    if (any) {
      const RowProbabilities<kFromProbs> probability_of(task.filtered, number);
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        if (((kept >> i) & 1U) != 0) probability[i] = probability_of(x[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if (first + i * kWarp < row.vocab) probs[first + i * kWarp] = probability[i];
    }
  }
  if (task.masked != nullptr) write_masked(task, number, row, first, kept);
  if (!task.mask.given()) return;
  std::uint32_t my_word = 0;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) {
    const std::uint32_t votes = __ballot_sync(kAllLanes, ((kept >> i) & 1U) != 0);
    if (lane_of_thread() == i) my_word = votes;
  }
  const std::int64_t word = tile * kTileWords + lane_of_thread();
  if (lane_of_thread() < kTileWords && word * 32 < row.vocab) {
    task.mask.data[number * task.mask.row_stride + word] = my_word;
  }
}

template <bool kFromProbs>
__global__ void __launch_bounds__(kThreads)
    write_rows_kernel(const __grid_constant__ RowsOutputTask task, std::int64_t blocks_a_row) {
  const std::int64_t number = blockIdx.x / blocks_a_row;  // number of the row
  const std::int64_t part = blockIdx.x % blocks_a_row;
  const RowStatus status = task.filtered.records[number].status;
  if (part == 0 && threadIdx.x == 0 && task.statuses != nullptr) task.statuses[number] = status;
  if (status == RowStatus::inactive) return;
  const std::int64_t tile = part * kTilesABlock + warp_of_thread();
  if (tile >= tiles_of(task.filtered.rows.vocab)) return;
  write_tile<kFromProbs>(task, number, tile, status == RowStatus::ok);
}

}  // namespace

cudaError_t write_rows(const RowsOutputTask& task, cudaStream_t stream) {
  const std::int64_t blocks_a_row =
      (tiles_of(task.filtered.rows.vocab) + kTilesABlock - 1) / kTilesABlock;
  // There are fewer than 2^22 rows of 512 blocks, so the grid is smaller than the maximum of 2^31 -
  // 1 blocks.
  return launch_clusters(
      task.filtered.from_probs ? write_rows_kernel<true> : write_rows_kernel<false>,
      task.filtered.rows.rows * blocks_a_row, 1, kThreads, stream, task, blocks_a_row);
}

cudaError_t compiled_capability(int& capability) {
  cudaFuncAttributes attributes{};
  const cudaError_t answer = cudaFuncGetAttributes(&attributes, write_rows_kernel<false>);
  capability = attributes.ptxVersion;
  return answer;
}

}  // namespace fairdraw::cuda
