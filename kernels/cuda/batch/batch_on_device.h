// Device's copy of a batch: its memory, and its updates after changes of the batch.
//
// The block of device memory has the host's layout (kernels/serving/slot_arrays.h): the table of
// values per slot, then the lists, each in the same lane as on the host. So only the table is
// copied for a request that moves, and the table and the lists for a request that enters.
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

  /// Allocates all memory and makes a batch without requests. Waits for the device to finish.
  Error create(const FusedSamplingOptions& options);

  serving::BatchMirror& mirror() { return mirror_; }
  const serving::BatchMirror& mirror() const { return mirror_; }
  const BatchStateOptions& options() const { return options_; }
  std::int32_t capacity() const { return options_.capacity; }

  /// Enqueues all changes. After an error the device's copy of the batch must not be used any more.
  Error bring_changes();

  /// Enqueues a copy of bitmask rows from other memory of the device or of the host.
  Error bring_bitmask(const BitRows<const std::uint32_t>& packed);
  Error clear_bitmask();
  /// Returns whether a bitmask is used; if not, all tokens are allowed for all requests.
  bool uses_bitmask() const { return uses_bitmask_; }

  /// Returns the request for `sample` over logits.rows slots, all in device memory. `active` marks
  /// the requests whose history has room for another token.
  SampleRequest call(const RowsView& logits, bool with_processing, bool with_bitmask) const;

  /// Enqueues a copy of the caller's offsets from host memory to the device.
  Error bring_offsets(const std::int64_t* offsets, std::int64_t count);
  const std::int64_t* offsets() const { return offsets_; }

  /// Returns a task of choose_rows with the arrays of this copy. The members that depend on the
  /// call and the step are not set.
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
