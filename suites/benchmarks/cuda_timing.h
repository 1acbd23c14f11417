// Timing of calls on a GPU: captured in a CUDA graph, replayed with a cold L2, median of many.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "fairdraw/cuda_memory.h"

namespace fairdraw::suites {

/// Number of replays of which the median is taken.
inline constexpr int kRepetitions = 30;

/// Throws std::runtime_error with `what` and the error's text if there is an error.
void expect_success(cudaError_t status, const std::string& what);
void expect_success(const Error& error, const std::string& what);

inline cudaStream_t handle(const cuda::Stream& stream) {
  return static_cast<cudaStream_t>(stream.get());
}

/// The captured work of a call, for replays. Throws std::runtime_error if the call cannot be
/// captured.
class CapturedCall {
 public:
  CapturedCall(const cuda::Stream& stream, const std::function<void()>& call);
  ~CapturedCall();
  CapturedCall(const CapturedCall&) = delete;
  CapturedCall& operator=(const CapturedCall&) = delete;

  void replay(const cuda::Stream& stream) const;

 private:
  cudaGraphExec_t graph_ = nullptr;
};

/// One of the calls that are timed in alternation.
struct TimedCall {
  const CapturedCall* call = nullptr;
  std::function<void()> before = {};  ///< enqueued before each replay, not timed; may be empty
  std::function<void()> cold = {};    ///< enqueued like `before`, but after L2 was flushed
};

/// Times replays between two events on the stream. Before each replay, outside of the events, a
/// buffer larger than any L2 is filled to evict the inputs. The fill takes longer than enqueueing
/// the replay, so the time excludes the host's launch latency. The time includes the start of the
/// graph, about 3 us for an empty kernel.
class ColdTimer {
 public:
  explicit ColdTimer(const cuda::Stream& stream);
  ~ColdTimer();
  ColdTimer(const ColdTimer&) = delete;
  ColdTimer& operator=(const ColdTimer&) = delete;

  /// Enqueues the fill of a buffer, which takes a few tenths of a millisecond.
  void flush(int pattern);

  /// Keeps the device busy until its clocks have left their idle state.
  void warm_up();

  /// Returns the median microseconds of each call, over `repetitions` replays in alternation, after
  /// one replay that is not counted.
  std::vector<double> medians(const std::vector<TimedCall>& calls, int repetitions);

 private:
  const cuda::Stream& stream_;
  cuda::DeviceBuffer flushed_;
  std::vector<cudaEvent_t> events_;
};

}  // namespace fairdraw::suites
