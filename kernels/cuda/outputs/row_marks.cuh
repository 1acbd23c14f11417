// Mark of a row, which a block finds from the row's key and output, and the failure of rows whose
// output is wrong (fairdraw/watermark.h).
#pragma once

#include <cstdint>

#include "common/proposals.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/outputs/mark_rows.h"
#include "serving/rules/watermark_rules.h"

namespace fairdraw::cuda {

/// Finds the mark of a row, with `threads` threads. The first warp returns it, without what the
/// others find: they set `has_stranger` and `is_repeated` to 1 if they see such an output.
__device__ inline RowMark mark_of(const MarkRowsTask& task, std::int64_t row, std::int32_t threads,
                                  int& has_stranger, int& is_repeated) {
  const Watermark& watermark = task.watermark;
  const RowList output = list_of(task.output, row);
  std::uint64_t key = watermark.key.at(row);
  const std::uint64_t second_key = watermark.second_key.at(row);
  const bool masks = watermark.mask_repeated.at(row) != 0;
  if (!output.in_buffer) return {MarkFate::has_no_list};
  if (key == 0) return {MarkFate::stays};
  const std::int32_t window = watermark.rule.window;
  if (warp_of_thread() == 0) {
    if (second_key != 0) {
      const DrawWords words{task.seed.at(row), task.offset.at(row), task.purpose,
                            task.seed.is_array() ? 0 : static_cast<std::uint32_t>(row)};
      const std::uint64_t word = words.of_attempt(kAttempts + 1);
      if (takes_second_key(watermark.second_share, word)) key = second_key;
    }
    return {MarkFate::marked, context_key(key, window, output.ids, output.length)};
  }
  const std::int32_t first = static_cast<std::int32_t>(threadIdx.x) - kWarp;
  const std::int32_t step = threads - kWarp;
  bool stranger = false;
#pragma unroll 4
  for (std::int32_t i = first; i < output.length; i += step) {
    stranger |= !is_token(output.ids[i], task.filtered.rows.vocab);
  }
  if (stranger) atomicOr(&has_stranger, 1);
  if (masks && context_is_repeated(output.ids, output.length, window, first, step)) {
    atomicOr(&is_repeated, 1);
  }
  return {};
}

/// Returns the mark of a row, given what mark_of found.
__device__ inline RowMark mark_with(const RowMark& mark, int has_stranger, int is_repeated) {
  if (mark.fate != MarkFate::marked) return mark;
  if (has_stranger != 0) return {MarkFate::has_stranger};
  return is_repeated != 0 ? RowMark{MarkFate::stays} : mark;
}

__device__ inline void fail(const MarkRowsTask& task, std::int64_t row) {
  task.records[row].status = RowStatus::invalid_history;
  task.tokens[row] = -1;
  if (task.statuses != nullptr) task.statuses[row] = RowStatus::invalid_history;
}

/// Returns whether a row that has a status so far fails by its output. A row without its list has
/// no other list that could fail first, or the row kernel knows it already.
__device__ inline bool fails(const RowMark& mark, RowStatus status) {
  if (mark.fate == MarkFate::has_stranger) return status == RowStatus::ok;
  return mark.fate == MarkFate::has_no_list &&
         (status == RowStatus::ok || status == RowStatus::no_allowed_token);
}

}  // namespace fairdraw::cuda
