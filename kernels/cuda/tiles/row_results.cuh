// Writes the results of a finished row, and derives the random word of its draw.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/filter_rows.h"
#include "cuda/tiles/row_cut.cuh"

namespace fairdraw::cuda {

__device__ inline DrawWords words_of_row(const RowsTask& task, std::int64_t row) {
  if (task.draws != nullptr) return task.draws[row];
  const std::uint32_t index = task.seed.is_array() ? 0 : static_cast<std::uint32_t>(row);
  return {task.seed.at(row), task.offset.at(row), task.purpose, index};
}

__device__ inline std::uint64_t random_word_of_row(const RowsTask& task, std::int64_t row) {
  return task.words != nullptr ? task.words[row] : words_of_row(task, row).of_attempt(0);
}

/// Writes the results of a row that is not ok.
__device__ inline void write_failure(const RowsTask& task, std::int64_t row, RowStatus status) {
  if (task.tokens != nullptr) task.tokens[row] = -1;
  if (task.statuses != nullptr) task.statuses[row] = status;
  if (task.records != nullptr) task.records[row] = {status, -1, 0, 0, 0, 0, 0, 0};
}

/// Writes the results of a greedy row, which has one survivor.
__device__ inline void write_greedy(const RowsTask& task, std::int64_t row, std::int32_t token,
                                    std::int32_t largest) {
  if (task.tokens != nullptr) task.tokens[row] = token;
  if (task.statuses != nullptr) task.statuses[row] = RowStatus::ok;
  if (task.records == nullptr) return;
  const float max = from_order_key(largest);
  task.records[row] = {RowStatus::ok, token, max, max, token + 1, 0, 0, 0};
}

/// Writes the results of a row that is ok, by the thread that has the row's token. `floor` is
/// stored in the RowRecord.
__device__ inline void write_drawn(const RowsTask& task, std::int64_t row, int token,
                                   std::int32_t largest, const RowCut& cut, uint128_t total,
                                   float floor = INFINITY) {
  if (task.tokens != nullptr) task.tokens[row] = token;
  if (task.statuses != nullptr) task.statuses[row] = RowStatus::ok;
  if (task.records == nullptr) return;
  task.records[row] = {RowStatus::ok,
                       -1,
                       from_order_key(largest),
                       from_order_key(cut.low),
                       cut.tie_end,
                       floor,
                       static_cast<std::uint64_t>(total),
                       static_cast<std::uint64_t>(total >> 64)};
}

}  // namespace fairdraw::cuda
