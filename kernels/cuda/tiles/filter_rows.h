// Interface of the row kernel, which filters rows of logits or probabilities and draws tokens.
//
// The interface is private to kernels/cuda. The kernel and its description are in filter_tiles.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/proposals.h"
#include "common/wide_integers.h"
#include "cuda/device/tile_spread.h"
#include "cuda/rows/edit_planes.h"
#include "cuda/rows/filtered_rows.h"
#include "fairdraw/cuda.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Code that finishes rows whose status is ok, and writes their tokens.
enum class RowEndKind : std::int32_t {
  index,       ///< the first block alone: greedy rows, and draws from the index (plain_row.cuh)
  proposal,    ///< an accepted proposal (row_proposals.cuh)
  short_list,  ///< a list with a candidate per thread (short_list_end.cuh)
  long_list,   ///< a list with several candidates per thread (long_list.cuh)
  threshold,   ///< a draw from the index at a threshold (threshold_search.cuh)
};
inline constexpr int kRowEnds = 5;

/// Arguments of one launch of the row kernel. All arguments must be in range, except for values in
/// device memory, which the kernel checks.
struct RowsTask {
  RowsView rows;
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;    ///< whether top_k 1 keeps ties, as in the mask and renorm
                                      ///< operations
  bool parameters_come_late = false;  ///< whether the kernel before this one writes parameters, so
                                      ///< that this one cannot start early
  PerRequest<TieRule> tie_rule = TieRule::keep_all;
  PerRequest<FilterOrder> filter_order = FilterOrder::top_k_first;
  PerRequest<float> temperature = 1.0F;
  PerRequest<std::int32_t> top_k = 0;
  PerRequest<float> top_p = 1.0F;
  PerRequest<float> min_p = 0.0F;
  BitRows<const std::uint32_t> allowed;
  View<const std::uint8_t> active;
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
#ifdef FAIRDRAW_DEVICE_ASSERTS
  std::uint32_t* ends = nullptr;  ///< optional [kRowEnds]: number of rows that each RowEndKind
                                  ///< finished
#endif
};

/// Enqueues the row kernel; rows.rows must be in [1, 2^22). Returns the CUDA error of the launch.
cudaError_t filter_rows(const RowsTask& task, Path path, cudaStream_t stream);

/// Enqueues the row kernel with a given number of blocks per row; spread.threads must be at least
/// 256. Returns the CUDA error of the launch.
cudaError_t filter_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream);

/// Enqueues the row kernel for rows that vectors can read, in a call in which each block has an SM
/// of its own. Only filter_tiles calls this function.
cudaError_t filter_few_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream);

/// Returns whether the device runs all blocks of filter_few_tiles at once. Clusters do not cross
/// groups of SMs (GPCs), so that 32 clusters of 4 blocks do not always fit on 132 SMs.
bool few_tiles_run_at_once(const RowsTask& task, const TileSpread& spread);

}  // namespace fairdraw::cuda
