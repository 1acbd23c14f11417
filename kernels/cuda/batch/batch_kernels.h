// Interface of the kernels that update the device's copy of a batch (batch_kernels.cu). The arrays
// are described in batch_on_device.h and kernels/serving/slot_arrays.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fairdraw/types.h"
#include "serving/batch_mirror.h"

namespace fairdraw::cuda {

/// Treatment in a call of the request that a slot has.
enum class Choice : std::uint8_t {
  none = 0,  ///< the slot has no request, the request has no row in this call, or one of its rows
             ///< has failed
  sampled = 1,
  full = 2,         ///< the history of the request has no room for another token
  bad_offsets = 3,  ///< the request names rows that do not exist among the logits
};

/// Choice of the rows of logits that one call of `sample` in a step reads, and their copies.
struct ChooseTask {
  RowsView logits;
  std::int32_t slots = 0;       ///< number of slots, >= 1
  std::int32_t max_length = 0;  ///< maximum length of the history of a request
  bool last = true;             ///< whether the last row of each request is sampled; otherwise the
                                ///< row with the number `call`
  std::int64_t call = 0;        ///< number of the call within the step
  const void* offsets = nullptr;  ///< [slots + 1]
  bool narrow_offsets = false;    ///< uint32, otherwise int64
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  const std::int32_t* output_lengths = nullptr;
  const RowStatus* statuses = nullptr;  ///< statuses of the rows in the step so far, which are read
                                        ///< if call > 0

  Choice* choices = nullptr;       ///< [slots]
  std::uint8_t* active = nullptr;  ///< [slots]: 1 for sampled
  unsigned char* rows = nullptr;   ///< chosen rows [slots, row_bytes]; the address and row_bytes
                                   ///< are multiples of 16 bytes
  std::int64_t row_bytes = 0;
};
cudaError_t choose_rows(const ChooseTask& task, cudaStream_t stream);

/// Tokens that a call of `sample` has drawn, and the arrays of the batch that these tokens advance,
/// with one value per slot.
struct AdvanceTask {
  std::int32_t slots = 0;     ///< number of slots, >= 1
  std::int32_t capacity = 0;  ///< >= slots
  std::int32_t max_length = 0;
  std::int64_t vocab = 0;
  bool first = true;                ///< whether this is the first call of the step
  const Choice* choices = nullptr;  ///< choice for each slot; null means that all requests are
                                    ///< sampled, except requests for which `may_draw` is false
                                    ///< (Choice::full)
  const std::int32_t* drawn = nullptr;
  const RowStatus* drawn_statuses = nullptr;
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  const std::int64_t* output_begins = nullptr;

  std::uint8_t* may_draw = nullptr;  ///< whether the history of a slot's request has room for
                                     ///< another token
  std::int32_t* output = nullptr;    ///< output tokens of all histories
  std::int32_t* output_lengths = nullptr;
  std::uint64_t* offsets = nullptr;
  std::int32_t* output_counts = nullptr;  ///< number of times that each token is in the output
                                          ///< [capacity, vocab], or null
  std::int32_t* tokens = nullptr;         ///< tokens that are the result of the step
  std::int32_t* counts = nullptr;
  RowStatus* statuses = nullptr;
  serving::CallRecord* records = nullptr;  ///< ring of records [max_calls, capacity]
  std::int32_t max_calls = 0;
  std::uint64_t* calls = nullptr;  ///< number of calls of `sample` that have run so far
  const std::uint32_t* epoch = nullptr;
};
cudaError_t advance_batch(const AdvanceTask& task, cudaStream_t stream);

/// Update of the slot table on the device from the slot table of the host, except for values that
/// only the device knows.
struct MergeTask {
  std::int32_t capacity = 0;
  std::int32_t max_length = 0;
  std::uint32_t new_epoch = 0;
  std::int64_t table_bytes = 0;                   ///< a multiple of 16
  const void* staged = nullptr;                   ///< slot table of the host
  void* table = nullptr;                          ///< slot table of the device
  const std::int32_t* from = nullptr;             ///< [capacity]: BatchMirror::from()
  const std::uint64_t* staged_offsets = nullptr;  ///< offsets in `staged`
  const std::int32_t* staged_lengths = nullptr;
  std::uint64_t* offsets = nullptr;  ///< offsets in `table`
  std::int32_t* output_lengths = nullptr;
  const std::uint8_t* occupied = nullptr;
  const std::int32_t* prompt_lengths = nullptr;
  std::uint64_t* kept_offsets = nullptr;  ///< scratch memory of the kernel [capacity]
  std::int32_t* kept_lengths = nullptr;
  std::uint8_t* may_draw = nullptr;
  std::uint32_t* epoch = nullptr;
};
cudaError_t merge_table(const MergeTask& task, cudaStream_t stream);

/// Rows of the bitmask and of dense histories, for slots whose request is new or has moved.
struct RowsOfSlots {
  const std::int32_t* changed = nullptr;  ///< [count]: slots
  std::int32_t count = 0;                 ///< >= 1
  const std::int32_t* from = nullptr;     ///< [capacity]
  std::int64_t vocab = 0;

  std::uint32_t* allowed = nullptr;        ///< rows of the bitmask [capacity, words], or null
  std::uint32_t* moved_allowed = nullptr;  ///< rows of the bitmask that move [capacity, words]

  std::int32_t* output_counts = nullptr;  ///< rows of the counts [capacity, vocab], or null
  std::uint32_t* prompt_mask = nullptr;   ///< [capacity, words]
  const std::int32_t* histories = nullptr;
  const std::int64_t* prompt_begins = nullptr;
  const std::int32_t* prompt_lengths = nullptr;  ///< lengths of the prompts to which penalties
                                                 ///< apply
  const std::int64_t* output_begins = nullptr;
  const std::int32_t* output_lengths = nullptr;
};
/// Copies the bitmask rows of the slots from which requests move away, before any of these rows is
/// overwritten.
cudaError_t take_moved_rows(const RowsOfSlots& task, cudaStream_t stream);
/// Writes the rows of the changed slots: bitmask rows that have moved, or all ones for new
/// requests, and the counts and masks of the histories as they are now.
cudaError_t fill_rows_of_slots(const RowsOfSlots& task, cudaStream_t stream);

/// Sets *point to *calls, in the order of the stream.
cudaError_t mark_calls(const std::uint64_t* calls, std::uint64_t* point, cudaStream_t stream);

}  // namespace fairdraw::cuda
