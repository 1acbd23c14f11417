// Interface of the kernel that gives marked rows the token that wins their race (mark_rows.cu).
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
  races,         ///< the row's token is that of the race
  has_no_list,   ///< the row fails, because its output is not in its buffer
  has_stranger,  ///< the row fails, because its output has an id that is no token
};

struct RowMark {
  MarkFate fate = MarkFate::stays;
  std::uint64_t context_key = 0;
};

/// Rows whose nucleus the row kernel does not look for, in calls in which open_rows runs first.
struct OpenRows {
  PerRequest<float> asked = 1.0F;  ///< top_p of the request
  PerRequest<std::int32_t> top_k = 0;
  PerRequest<float> min_p = 0.0F;
  float* top_p = nullptr;    ///< [rows]: top_p of the row kernel, which is 1 in open rows
  RowMark* marks = nullptr;  ///< [rows]

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
  Watermark watermark;                ///< marks by a race
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  Purpose purpose = Purpose::draw;
  OpenRows open;                 ///< unset in calls without open rows
  bool starts_early = true;      ///< whether mark_rows starts while the row kernel still runs
  RowRecord* records = nullptr;  ///< [rows]; the records of `filtered`, of which this kernel writes
                                 ///< the statuses of rows that fail
  std::int32_t* tokens = nullptr;  ///< [rows]
  RowStatus* statuses = nullptr;   ///< [rows], optional
};

/// Enqueues the kernel that finds the open rows, and the marks of all rows. It must run before the
/// row kernel and edit_rows; of `filtered`, it reads only the rows' number and vocabulary and the
/// temperature. There must be at least one row. Returns the CUDA error of the launch.
cudaError_t open_rows(const MarkRowsTask& task, cudaStream_t stream);

/// Enqueues the kernel that lets marked rows race; there must be at least one row. Returns the CUDA
/// error of the launch.
cudaError_t mark_rows(const MarkRowsTask& task, const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
