// Kernels that update the device's copy of a batch (batch_kernels.cu). batch_on_device.h and
// kernels/serving/slot_arrays.h describe the arrays.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fairdraw/types.h"
#include "serving/batch_mirror.h"

namespace fairdraw::cuda {

/// Treatment of a slot's request in a call.
enum class Choice : std::uint8_t {
  none = 0,  ///< no request in the slot, no row for it in this call, or one of its rows has failed
  sampled = 1,
  full = 2,         ///< the request's history has no room for a token
  bad_offsets = 3,  ///< the request's rows are not rows of the logits
};

/// Choice of the rows of logits that one call of a step samples, and their copies.
struct ChooseTask {
  RowsView logits;
  std::int32_t slots = 0;       ///< number of slots, >= 1
  std::int32_t max_length = 0;  ///< maximum length of a request's history
  bool last = true;             ///< sample each request's last row; otherwise its row number `call`
  std::int64_t call = 0;        ///< number of the call in this step
  const void* offsets = nullptr;  ///< [slots + 1]
  bool narrow_offsets = false;    ///< uint32, otherwise int64
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  const std::int32_t* output_lengths = nullptr;
  const RowStatus* statuses = nullptr;  ///< statuses of the step's rows so far; read if call > 0

  Choice* choices = nullptr;       ///< [slots]
  std::uint8_t* active = nullptr;  ///< [slots]: 1 for sampled
  unsigned char* rows = nullptr;   ///< [slots, row_bytes], aligned to 16 bytes, as row_bytes is
  std::int64_t row_bytes = 0;
};
cudaError_t choose_rows(const ChooseTask& task, cudaStream_t stream);

/// Tokens that a call of `sample` has drawn, and the arrays of the batch that they advance, with
/// one value per slot.
struct AdvanceTask {
  std::int32_t slots = 0;     ///< number of slots, >= 1
  std::int32_t capacity = 0;  ///< >= slots
  std::int32_t max_length = 0;
  std::int64_t vocab = 0;
  bool first = true;                ///< whether this is the first call of the step
  const Choice* choices = nullptr;  ///< null: all requests are sampled, or have Choice::full if not
                                    ///< `may_draw`
  const std::int32_t* drawn = nullptr;
  const RowStatus* drawn_statuses = nullptr;
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  const std::int64_t* output_begins = nullptr;

  std::uint8_t* may_draw = nullptr;  ///< whether the history has room
  std::int32_t* output = nullptr;    ///< output tokens of all histories
  std::int32_t* output_lengths = nullptr;
  std::uint64_t* offsets = nullptr;
  std::int32_t* output_counts = nullptr;  ///< [capacity, vocab], or null
  std::int32_t* tokens = nullptr;         ///< tokens that the step returns
  std::int32_t* counts = nullptr;
  RowStatus* statuses = nullptr;
  serving::CallRecord* records = nullptr;  ///< [most_calls, capacity], a ring
  std::int32_t most_calls = 0;
  std::uint64_t* calls = nullptr;  ///< number of calls of `sample` that have run
  const std::uint32_t* epoch = nullptr;
};
cudaError_t advance_batch(const AdvanceTask& task, cudaStream_t stream);

/// Update of the device's table of slots from the host's table, except for the values that only the
/// device knows.
struct MergeTask {
  std::int32_t capacity = 0;
  std::int32_t max_length = 0;
  std::uint32_t new_epoch = 0;
  std::int64_t table_bytes = 0;                   ///< a multiple of 16
  const void* staged = nullptr;                   ///< table of the host
  void* table = nullptr;                          ///< table of the device
  const std::int32_t* from = nullptr;             ///< [capacity]: BatchMirror::from()
  const std::uint64_t* staged_offsets = nullptr;  ///< offsets in `staged`
  const std::int32_t* staged_lengths = nullptr;
  std::uint64_t* offsets = nullptr;  ///< offsets in `table`
  std::int32_t* output_lengths = nullptr;
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  std::uint64_t* kept_offsets = nullptr;  ///< [capacity], scratch memory of the kernel
  std::int32_t* kept_lengths = nullptr;
  std::uint8_t* may_draw = nullptr;
  std::uint32_t* epoch = nullptr;
};
cudaError_t merge_table(const MergeTask& task, cudaStream_t stream);

/// Rows of bitmask and dense history of slots whose requests came or moved.
struct RowsOfSlots {
  const std::int32_t* changed = nullptr;  ///< [count]: slots
  std::int32_t count = 0;                 ///< >= 1
  const std::int32_t* from = nullptr;     ///< [capacity]
  std::int64_t vocab = 0;

  std::uint32_t* allowed = nullptr;        ///< [capacity, words], or null
  std::uint32_t* moved_allowed = nullptr;  ///< [capacity, words]: rows that move

  std::int32_t* output_counts = nullptr;  ///< [capacity, vocab], or null
  std::uint32_t* prompt_mask = nullptr;   ///< [capacity, words]
  const std::int32_t* histories = nullptr;
  const std::int64_t* prompt_begins = nullptr;
  const std::int32_t* prompt_lengths = nullptr;  ///< lengths of the prompts that are penalised
  const std::int64_t* output_begins = nullptr;
  const std::int32_t* output_lengths = nullptr;
};
/// Copies the bitmask rows of the slots from which requests move, before any of these rows is
/// overwritten.
cudaError_t take_moved_rows(const RowsOfSlots& task, cudaStream_t stream);
/// Writes the rows of the changed slots: bitmask rows that moved, or all ones for new requests, and
/// counts and masks of the histories as they are now.
cudaError_t fill_rows_of_slots(const RowsOfSlots& task, cudaStream_t stream);

/// Sets *point = *calls, in the stream's order.
cudaError_t mark_calls(const std::uint64_t* calls, std::uint64_t* point, cudaStream_t stream);

}  // namespace fairdraw::cuda
