// Interface of the kernels that give marked rows the token of their race (mark_rows.cu) or of their
// tournament (play_rows.cu), and of those that find marks and green tokens (row_marks.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/device/tile_spread.h"
#include "cuda/rows/filtered_rows.h"
#include "fairdraw/tile_index.h"
#include "fairdraw/watermark.h"

namespace fairdraw::cuda {

/// Fate of a row, by its mark and its output.
enum class MarkFate : std::int32_t {
  stays,         ///< the row is not marked
  marked,        ///< the row's token is that of the race or the tournament, or of green tokens
  has_no_list,   ///< the row fails, because its output is not in its buffer
  has_stranger,  ///< the row fails, because its output has an id that is no token
};

struct RowMark {
  MarkFate fate = MarkFate::stays;
  std::uint64_t context_key = 0;
};

/// Rows whose nucleus the row kernel does not look for, in races before which find_marks runs.
struct OpenRows {
  PerRequest<float> asked = 1.0F;  ///< top_p of the request
  PerRequest<std::int32_t> top_k = 0;
  PerRequest<float> min_p = 0.0F;
  float* top_p = nullptr;  ///< [rows]: top_p of the row kernel, which is 1 in open rows

  __host__ __device__ bool is_open(std::int64_t row) const {
    return top_p != nullptr && top_p[row] == 1.0F && asked.at(row) < 1.0F;
  }
};

/// Rows whose tokens the row kernel has drawn, and their marks.
struct MarkRowsTask {
  FilteredRows filtered;
  TileRows<const std::int32_t> keys;  ///< keys of the largest value of each tile, in rows whose
                                      ///< status is ok
  TokenLists output;                  ///< ids that each row's request has generated
  Watermark watermark;
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  Purpose purpose = Purpose::draw;
  RowMark* marks = nullptr;      ///< [rows]; unset in races before which find_marks does not run
  OpenRows open;                 ///< unset in calls without open rows
  bool starts_early = true;      ///< whether mark_rows starts while the row kernel still runs
  RowRecord* records = nullptr;  ///< [rows]; the records of `filtered`, of which this kernel writes
                                 ///< the statuses of rows that fail
  std::int32_t* tokens = nullptr;  ///< [rows]
  RowStatus* statuses = nullptr;   ///< [rows], optional
};

/// Bits of the green tokens of all rows.
struct GreenTask {
  const RowMark* marks = nullptr;  ///< [rows]
  std::int64_t rows = 0;
  int vocab = 0;
  std::uint64_t limit = 0;        ///< words below which tokens are green
  std::uint32_t* bits = nullptr;  ///< [rows, words_of_row]; 0 for all tokens of unmarked rows
  std::int64_t words_of_row = 0;  ///< at least vocab / 32
};

/// Rows that play a tournament, and the memory of their survivors. The arrays hold kRowsOfPlay
/// rows, or all rows if these are fewer; further rows take turns.
struct PlayRowsTask {
  MarkRowsTask rows;                 ///< with the rows' marks; it has no open rows
  std::uint64_t* weights = nullptr;  ///< [rows of the arrays, tokens_of_row]
  std::uint64_t* words = nullptr;    ///< [rows of the arrays, tokens_of_row]
  std::int32_t* tokens = nullptr;    ///< [rows of the arrays, tokens_of_row]
  std::int64_t tokens_of_row = 0;    ///< a multiple of kTileSize
};

/// Most rows that play at once. With one block each, they are enough for the GPU.
inline constexpr std::int64_t kRowsOfPlay = 128;

/// Enqueues the kernel that finds the marks of all rows, and the open rows if there are any. It
/// must run before the row kernel and edit_rows; of `filtered`, it reads only the rows' number and
/// vocabulary and the temperature. There must be at least one row, here and below. Returns the CUDA
/// error of the launch, as all these functions do.
cudaError_t find_marks(const MarkRowsTask& task, cudaStream_t stream);

/// Enqueues the kernel that finds the green tokens of all rows.
cudaError_t find_green_tokens(const GreenTask& task, cudaStream_t stream);

/// Enqueues the kernel that fails rows whose output is wrong, after the row kernel. In races and
/// tournaments, the kernels below do this themselves.
cudaError_t fail_marked_rows(const MarkRowsTask& task, cudaStream_t stream);

/// Enqueues the kernel that lets marked rows race.
cudaError_t mark_rows(const MarkRowsTask& task, const TileSpread& spread, cudaStream_t stream);

/// Enqueues the kernel that lets marked rows play their tournament. `spread` is that of the rows
/// that play at once.
cudaError_t play_rows(const PlayRowsTask& task, const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
