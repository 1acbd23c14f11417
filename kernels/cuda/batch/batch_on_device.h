// Copy of a batch on the device: its memory, and its updates after changes of the batch.
//
// The block of device memory has the same layout as on the host (kernels/serving/slot_arrays.h):
// first the table of values per slot, then the lists, each at the same place as on the host. So if
// a request moves, only the table is copied; if a request enters, the table and the request's lists
// are copied.
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

  /// Allocates all memory, and makes a batch that has no requests. The function waits until the
  /// device has finished this work.
  Error create(const FusedSamplingOptions& options);

  serving::BatchMirror& mirror() { return mirror_; }
  const serving::BatchMirror& mirror() const { return mirror_; }
  const BatchStateOptions& options() const { return options_; }
  std::int32_t capacity() const { return options_.capacity; }

  /// Enqueues all changes. After an error, the device's copy of the batch must not be used any
  /// more.
  Error bring_changes();

  /// Enqueues a copy of bitmask rows, which may be in memory of the device or of the host.
  Error bring_bitmask(const BitRows<const std::uint32_t>& packed);
  Error clear_bitmask();
  /// Returns whether a bitmask is used; if not, all tokens are allowed for all requests.
  bool uses_bitmask() const { return uses_bitmask_; }

  /// Returns the request to `sample` for logits.rows slots, with all arrays in device memory. The
  /// array `active` marks the requests whose history has room for another token.
  SampleRequest call(const RowsView& logits, bool with_processing, bool with_bitmask) const;

  /// Enqueues a copy of the caller's offsets from host memory to the device.
  Error bring_offsets(const std::int64_t* offsets, std::int64_t count);
  const std::int64_t* offsets() const { return offsets_; }

  /// Returns a task for choose_rows that has the arrays of this copy. The function does not set
  /// members that depend on the call and the step.
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
