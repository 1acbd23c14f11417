// Kernels that keep the device's copy of a batch (batch_kernels.cu). What the arrays are:
// batch_on_device.h and kernels/serving/slot_arrays.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fairdraw/types.h"
#include "serving/batch_mirror.h"

namespace fairdraw::cuda {

/// What a call does with the request of a slot.
enum class Choice : std::uint8_t {
  none = 0,  ///< no request, no row in this call, or a row of it has failed
  sampled = 1,
  full = 2,         ///< its history has no room for a token
  bad_offsets = 3,  ///< its rows are not rows of the logits
};

/// Which rows of logits one call of a step samples, and where they go.
struct ChooseTask {
  RowsView logits;
  std::int32_t slots = 0;         ///< n, >= 1
  std::int32_t max_length = 0;    ///< of a history
  bool last = true;               ///< each request's last row; else row number `call`
  std::int64_t call = 0;          ///< of this step
  const void* offsets = nullptr;  ///< [slots + 1]
  bool narrow_offsets = false;    ///< uint32, else int64
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  const std::int32_t* output_lengths = nullptr;
  const RowStatus* statuses = nullptr;  ///< of the step so far; read where call > 0

  Choice* choices = nullptr;       ///< [slots]
  std::uint8_t* active = nullptr;  ///< [slots]: sampled
  unsigned char* rows = nullptr;   ///< [slots, row_bytes], aligned to 16 bytes, as row_bytes is
  std::int64_t row_bytes = 0;
};
cudaError_t choose_rows(const ChooseTask& task, cudaStream_t stream);

/// What a call has drawn, and what it moves on. Arrays of one value a slot.
struct AdvanceTask {
  std::int32_t slots = 0;     ///< n, >= 1
  std::int32_t capacity = 0;  ///< >= slots
  std::int32_t max_length = 0;
  std::int64_t vocab = 0;
  bool first = true;                ///< call of the step
  const Choice* choices = nullptr;  ///< null: all requests, or full where not `may_draw`
  const std::int32_t* drawn = nullptr;
  const RowStatus* drawn_statuses = nullptr;
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  const std::int64_t* output_begins = nullptr;

  std::uint8_t* may_draw = nullptr;  ///< a request whose history has room
  std::int32_t* output = nullptr;    ///< the lists' data
  std::int32_t* output_lengths = nullptr;
  std::uint64_t* offsets = nullptr;
  std::int32_t* output_counts = nullptr;  ///< [capacity, vocab], or null
  std::int32_t* tokens = nullptr;         ///< results of the step
  std::int32_t* counts = nullptr;
  RowStatus* statuses = nullptr;
  serving::CallRecord* records = nullptr;  ///< [most_calls, capacity], a ring
  std::int32_t most_calls = 0;
  std::uint64_t* calls = nullptr;  ///< how many have run
  const std::uint32_t* epoch = nullptr;
};
cudaError_t advance_batch(const AdvanceTask& task, cudaStream_t stream);

/// The table of the batch, from the host's, with what belongs to the device kept.
struct MergeTask {
  std::int32_t capacity = 0;
  std::int32_t max_length = 0;
  std::uint32_t new_epoch = 0;
  std::int64_t table_bytes = 0;                   ///< a multiple of 16
  const void* staged = nullptr;                   ///< the host's table
  void* table = nullptr;                          ///< the device's
  const std::int32_t* from = nullptr;             ///< [capacity]: BatchMirror::from()
  const std::uint64_t* staged_offsets = nullptr;  ///< in `staged`
  const std::int32_t* staged_lengths = nullptr;
  std::uint64_t* offsets = nullptr;  ///< in `table`
  std::int32_t* output_lengths = nullptr;
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  std::uint64_t* kept_offsets = nullptr;  ///< [capacity], for the kernel's own use
  std::int32_t* kept_lengths = nullptr;
  std::uint8_t* may_draw = nullptr;
  std::uint32_t* epoch = nullptr;
};
cudaError_t merge_table(const MergeTask& task, cudaStream_t stream);

/// Rows of one slot each, of requests that came or moved: bitmask and dense history.
struct RowsOfSlots {
  const std::int32_t* changed = nullptr;  ///< [count]: slots
  std::int32_t count = 0;                 ///< >= 1
  const std::int32_t* from = nullptr;     ///< [capacity]
  std::int64_t vocab = 0;

  std::uint32_t* allowed = nullptr;        ///< [capacity, words], or null
  std::uint32_t* moved_allowed = nullptr;  ///< [capacity, words]: rows on their way

  std::int32_t* output_counts = nullptr;  ///< [capacity, vocab], or null
  std::uint32_t* prompt_mask = nullptr;   ///< [capacity, words]
  const std::int32_t* histories = nullptr;
  const std::int64_t* prompt_begins = nullptr;
  const std::int32_t* prompt_lengths = nullptr;  ///< of prompts that are penalised
  const std::int64_t* output_begins = nullptr;
  const std::int32_t* output_lengths = nullptr;
};
/// The bitmask's rows of slots that requests come from, before any of them is written.
cudaError_t take_moved_rows(const RowsOfSlots& task, cudaStream_t stream);
/// The rows of the changed slots: those that moved, all ones for requests that came; counts and
/// masks of the histories as they are now.
cudaError_t fill_rows_of_slots(const RowsOfSlots& task, cudaStream_t stream);

/// *point = *calls, when the stream comes to it.
cudaError_t mark_calls(const std::uint64_t* calls, std::uint64_t* point, cudaStream_t stream);

}  // namespace fairdraw::cuda
