// The device's copy of a batch: its memory, and how changes of the batch come to it.
//
// The block is laid out as on the host (kernels/serving/slot_arrays.h): the table of values a slot,
// then the lists, each in the lane that it has on the host. So what moves on the host is brought by
// the table alone, and a request that enters by the table and its lists.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/batch/batch_kernels.h"
#include "cuda/device/pinned_uploads.h"
#include "fairdraw/cuda_fused_sampling_processor.h"
#include "fairdraw/cuda_memory.h"
#include "serving/batch_mirror.h"
#include "serving/slot_arrays.h"

namespace fairdraw::cuda {

class BatchOnDevice {
 public:
  explicit BatchOnDevice(serving::BatchSlots& slots) : options_(slots.options), mirror_(slots) {}

  /// All memory, and a batch without requests. Waits for the device.
  Error create(const FusedSamplingOptions& options);

  serving::BatchMirror& mirror() { return mirror_; }
  const serving::BatchMirror& mirror() const { return mirror_; }
  const BatchStateOptions& options() const { return options_; }
  std::int32_t capacity() const { return options_.capacity; }

  /// Enqueues what has changed. After an error the copy is not to be used any more.
  Error bring_changes();

  /// Rows of the bitmask from other memory of the device or of the host, enqueued.
  Error bring_bitmask(const BitRows<const std::uint32_t>& packed);
  Error clear_bitmask();
  /// False where all tokens are allowed for all requests.
  bool uses_bitmask() const { return uses_bitmask_; }

  /// The call over logits.rows slots, all in device memory. `active` are the requests whose history
  /// has room.
  SampleRequest call(const RowsView& logits, bool with_processing, bool with_bitmask) const;

  /// From offsets of the caller in host memory to such on the device.
  Error bring_offsets(const std::int64_t* offsets, std::int64_t count);
  const std::int64_t* offsets() const { return offsets_; }

  /// A task with what is in the copy; the call's and the step's own members are not set.
  ChooseTask choose_task() const;
  AdvanceTask advance_task() const;

  const serving::SlotArrays& arrays() const { return arrays_; }

 private:
  Error bring_lists(std::int32_t slot);
  Error bring_table();
  Error bring_rows_of_slots();
  RowsOfSlots rows_of_slots() const;

  BatchStateOptions options_;
  serving::BatchMirror mirror_;
  cudaStream_t stream_ = nullptr;
  PinnedUploads uploads_;
  DeviceBuffer block_, rest_;
  serving::SlotArrays arrays_;  // in block_
  bool uses_bitmask_ = false;

  // In rest_.
  std::byte* staged_ = nullptr;  // a table
  std::int32_t* from_ = nullptr;
  std::int32_t* changed_ = nullptr;
  std::uint64_t* kept_offsets_ = nullptr;
  std::int32_t* kept_lengths_ = nullptr;
  std::uint8_t* may_draw_ = nullptr;
  std::uint32_t* epoch_ = nullptr;
  std::int64_t* offsets_ = nullptr;
  std::uint32_t* allowed_ = nullptr;  // null without bitmask
  std::uint32_t* moved_allowed_ = nullptr;
};

}  // namespace fairdraw::cuda
