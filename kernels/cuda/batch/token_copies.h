// Tokens in flight from the device to the host: a ring of records that one call after another
// writes, and copies of this ring in page-locked memory, which are made on a stream of their own.
//
// A copy waits for the preceding step by means of one CUDA event, and the host waits for the copy
// by means of another event. Neither event waits for work that is enqueued later, and later work
// does not wait for these events. Later calls write other positions of the ring, until the ring
// wraps around. A record contains the number of its call, so that a record that was overwritten too
// early is detected.
//
// As long as the host itself has enqueued all calls, the host knows which calls a copy must
// contain. The host does not know of the calls that run in a replayed CUDA graph. In this case a
// kernel stores the number of calls in the order of the stream, and the whole ring is copied.
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

  /// Sets the pointers of the task to the ring of records.
  void add_to(AdvanceTask& task) const;
  void calls_were_enqueued(std::uint64_t calls) { enqueued_ += calls; }
  /// Notes that from now on, calls may run that the host does not enqueue itself.
  void calls_were_captured() { host_counts_ = false; }

  /// Starts a copy of the records of all calls before this point of the stream, unless they have
  /// been copied already. `slots` is the number of slots of the last step.
  Error start(std::int64_t slots);
  /// Waits for the oldest copy in flight, delivers its tokens to the requests, and returns the last
  /// step of the copy.
  Error wait(serving::BatchMirror& mirror, CopiedStep& step);

  /// Counts the calls of `sample` that have run, after waiting for the stream.
  Error count_calls(std::uint64_t& calls);
  /// Notes that the host has the tokens of all calls with smaller numbers.
  void were_delivered(std::uint64_t calls) { delivered_ = calls; }

 private:
  struct Copy {
    PinnedBuffer memory;  // copy of the ring of records, followed by the number of calls that had
                          // run
    Event ready, done;
    // Number of calls that had run before the copy, if the host knows the number.
    std::uint64_t end = 0;
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
  std::int32_t max_calls_ = 0;
  cudaStream_t stream_ = nullptr;  // stream on which the steps run
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

  // Data of the last step for whose copy the host has waited.
  std::int64_t slots_ = 0;
  std::vector<std::int32_t> tokens_, counts_;
  std::vector<RowStatus> statuses_;
};

}  // namespace fairdraw::cuda
