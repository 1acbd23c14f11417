// Tokens in flight from the device to the host: a ring of records that successive calls write, and
// copies of it in page-locked memory, made on a stream of their own.
//
// A copy waits for the step before it by one event, and the host waits for the copy by another.
// Neither waits for work that is enqueued later, and that work does not wait for them. Later calls
// write other places of the ring until it has gone round. A record has the number of its call, so
// that a place that was overwritten too early is detected.
//
// The host knows the calls that a copy must have as long as it has enqueued all of them. A graph
// that is replayed runs calls unknown to it: then a kernel notes their number in the stream's
// order, and the whole ring is copied.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "cuda/batch/batch_kernels.h"
#include "cuda/device/pinned_uploads.h"
#include "fairdraw/cuda_fused_sampling_processor.h"
#include "fairdraw/cuda_memory.h"
#include "serving/batch_mirror.h"

namespace fairdraw::cuda {

class TokenCopies {
 public:
  ~TokenCopies();

  Error create(std::int32_t capacity, const FusedSamplingOptions& options);

  /// Sets the task's ring.
  void add_to(AdvanceTask& task) const;
  void calls_were_enqueued(std::uint64_t calls) { enqueued_ += calls; }
  /// Notes that from now on calls may run that the host does not enqueue.
  void calls_were_captured() { host_counts_ = false; }

  /// Starts a copy of all calls not copied before this point of the stream. `slots` is the number
  /// of slots of the last step.
  Error start(std::int64_t slots);
  /// Waits for the oldest copy, delivers its tokens to the requests, and returns its last step.
  Error wait(serving::BatchMirror& mirror, CopiedStep& step);

  /// Counts the calls that have run; waits for the stream.
  Error count_calls(std::uint64_t& calls);
  /// Notes that the host has the tokens of all calls before this one.
  void were_delivered(std::uint64_t calls) { delivered_ = calls; }

 private:
  struct Copy {
    PinnedBuffer memory;  // the ring, then the number of calls that had run
    Event ready, done;
    std::uint64_t end = 0;  // the same number, if the host knows it
    bool host_counted = true;
    std::int64_t slots = 0;

    serving::CallRecord* records() const {
      return reinterpret_cast<serving::CallRecord*>(memory.data());
    }
  };
  std::int64_t ring_bytes() const;
  Error copy_calls(Copy& copy, std::uint64_t begin, std::uint64_t end);
  Error copy_to_host(void* target, const void* source, std::int64_t bytes);
  bool is_of(const serving::CallRecord* records, std::uint64_t call) const;
  Error read(const Copy& copy, std::uint64_t end, serving::BatchMirror& mirror);
  void add_to_step(const serving::CallRecord* records);

  std::int32_t capacity_ = 0;
  std::int32_t most_calls_ = 0;
  cudaStream_t stream_ = nullptr;  // stream of the steps
  Stream own_;
  DeviceBuffer memory_;
  serving::CallRecord* records_ = nullptr;  // placed in memory_
  std::uint64_t* calls_ = nullptr;
  std::uint64_t* points_ = nullptr;  // [copies]

  std::vector<Copy> copies_;
  std::size_t oldest_ = 0, on_their_way_ = 0;
  bool host_counts_ = true;
  // Numbers of calls.
  std::uint64_t enqueued_ = 0, copied_ = 0, read_ = 0, delivered_ = 0;

  // The last step that was waited for.
  std::int64_t slots_ = 0;
  std::vector<std::int32_t> tokens_, counts_;
  std::vector<RowStatus> statuses_;
};

}  // namespace fairdraw::cuda
