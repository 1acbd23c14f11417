// Interface of the row kernel, which filters rows of logits or probabilities and draws tokens.
//
// The interface is private to kernels/cuda. The kernel and its description are in filter_tiles.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/proposals.h"
#include "common/wide_integers.h"
#include "cuda/tiles/edit_planes.h"
#include "fairdraw/cuda.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// A filtered row. The row's survivors are the allowed tokens with a value above `low`, and the
/// allowed tokens with a value equal to `low` and an id below `tie_end`; a greedy row has one
/// survivor, `greedy_token`.
struct RowRecord {
  RowStatus status;
  std::int32_t greedy_token;  ///< token of a greedy row; -1 for other rows
  float max;                  ///< largest allowed value of the row
  float low;
  std::int32_t tie_end;  ///< tokens equal to `low` with ids from this one on are dropped; vocab if
                         ///< no tied token is dropped
  float floor;  ///< smallest value that min_p keeps if the row draws by proposals; infinity in
                ///< other rows
  std::uint64_t total_low;   ///< low 64 bits of the survivors' weight in the row's unit
  std::uint64_t total_high;  ///< high 64 bits of this weight (common/tile_weights.h); neither word
                             ///< is set for greedy rows

  __host__ __device__ uint128_t weight() const {
    return (static_cast<uint128_t>(total_high) << 64) | total_low;
  }
};

/// Arguments of one launch of the row kernel. All arguments must be in range, except for values in
/// device memory, which the kernel checks.
struct RowsTask {
  RowsView rows;
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< whether top_k 1 keeps ties, as in the mask and renorm
                                    ///< operations
  PerRequest<TieRule> tie_rule = TieRule::keep_all;
  PerRequest<FilterOrder> filter_order = FilterOrder::top_k_first;
  PerRequest<float> temperature = 1.0F;
  PerRequest<std::int32_t> top_k = 0;
  PerRequest<float> top_p = 1.0F;
  PerRequest<float> min_p = 0.0F;
  BitRows<const std::uint32_t> allowed;
  View<const std::uint8_t> active;
  LogitsProcessing processing;  ///< logits processing of the call, which is read if `edits` is
                                ///< given
  /// Lists of the logits processing contain ids of a vocabulary of whole_vocab tokens. The rows are
  /// the columns of this vocabulary from first_id on, and ids of other columns have no effect. If
  /// whole_vocab is 0, the lists contain ids of the rows themselves.
  int first_id = 0;
  int whole_vocab = 0;
  EditPlanes edits;  ///< edits of the rows, written by edit_rows and read by the kernels after it

  // The same launch draws one token per row, and output i belongs to row i. No token is drawn if
  // `tokens` is null.
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  Purpose purpose = Purpose::draw;
  const DrawWords* draws = nullptr;      ///< optional [rows]: words of draws, which replace seed,
                                         ///< offset and purpose
  const std::uint64_t* words = nullptr;  ///< optional [rows]: random words of draws by a threshold
  std::int32_t* tokens = nullptr;        ///< drawn tokens [rows]; the random bits are those for
                                         ///< num_samples = 1
  RowStatus* statuses = nullptr;  ///< optional [rows]: statuses, which are written together with
                                  ///< the tokens

  RowRecord* records = nullptr;  ///< optional [rows]: records of the filtered rows, for later
                                 ///< kernels
  TileRows<std::int32_t> keys;   ///< optional: keys of the tiles of all rows whose status is ok,
                                 ///< for later kernels
};

/// Enqueues the row kernel; rows.rows must be in [1, 2^22). Returns the CUDA error of the launch.
cudaError_t filter_rows(const RowsTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
