// Device's copy of a batch: its memory, and its updates after changes of the batch.
//
// The block has the host's layout (kernels/serving/slot_arrays.h): the table of values per slot,
// then the lists, each in its lane on the host. So a request that moves needs the table alone, and
// one that enters needs the table and its lists.
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

  /// Allocates all memory and makes a batch without requests. Waits for the device.
  Error create(const FusedSamplingOptions& options);

  serving::BatchMirror& mirror() { return mirror_; }
  const serving::BatchMirror& mirror() const { return mirror_; }
  const BatchStateOptions& options() const { return options_; }
  std::int32_t capacity() const { return options_.capacity; }

  /// Enqueues all changes. After an error the copy must not be used any more.
  Error bring_changes();

  /// Enqueues a copy of rows of the bitmask from other memory of the device or of the host.
  Error bring_bitmask(const BitRows<const std::uint32_t>& packed);
  Error clear_bitmask();
  /// Returns false if all tokens are allowed for all requests.
  bool uses_bitmask() const { return uses_bitmask_; }

  /// Returns the call over logits.rows slots, all in device memory. `active` has the requests whose
  /// history has room.
  SampleRequest call(const RowsView& logits, bool with_processing, bool with_bitmask) const;

  /// Enqueues a copy of the caller's offsets from host memory to the device.
  Error bring_offsets(const std::int64_t* offsets, std::int64_t count);
  const std::int64_t* offsets() const { return offsets_; }

  /// Returns a task with the copy's members. The call's and the step's own members are not set.
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
  serving::SlotArrays arrays_;  // placed in block_
  bool uses_bitmask_ = false;

  // Placed in rest_.
  std::byte* staged_ = nullptr;  // host's table
  std::int32_t* from_ = nullptr;
  std::int32_t* changed_ = nullptr;
  std::uint64_t* kept_offsets_ = nullptr;
  std::int32_t* kept_lengths_ = nullptr;
  std::uint8_t* may_draw_ = nullptr;
  std::uint32_t* epoch_ = nullptr;
  std::int64_t* offsets_ = nullptr;
  std::uint32_t* allowed_ = nullptr;  // null without a bitmask
  std::uint32_t* moved_allowed_ = nullptr;
};

}  // namespace fairdraw::cuda
