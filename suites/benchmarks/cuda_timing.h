// Calls on a GPU are measured by capturing them in a CUDA graph, replaying the graph with a cold L2
// cache, and taking the median of many replays.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <vector>

#include "fairdraw/cuda_memory.h"

namespace fairdraw::suites {

/// Number of replays of which the median is taken.
inline constexpr int kRepetitions = 30;

/// Throws std::runtime_error with `what` and the text of the error if `status` is an error.
void expect_success(cudaError_t status, const std::string& what);
void expect_success(const Error& error, const std::string& what);

inline cudaStream_t handle(const cuda::Stream& stream) {
  return static_cast<cudaStream_t>(stream.get());
}

/// The captured work of a call, which can be replayed. Throws std::runtime_error if the call cannot
/// be captured.
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

/// One of several calls that are measured in alternation.
struct TimedCall {
  const CapturedCall* call = nullptr;
  std::function<void()> before = {};  ///< enqueues work before each replay, outside the measured
                                      ///< time; may be empty
  std::function<void()> cold = {};    ///< enqueues work like `before`, but after the L2 cache was
                                      ///< flushed
};

/// Measures the time of replays between two events on the stream. Before each replay, outside the
/// events, a buffer larger than any L2 cache is filled, which evicts the inputs. The fill takes
/// longer than enqueueing the replay, so the measured time does not include the host's launch
/// latency. The measured time includes the start of the graph, about 3 us for an empty kernel.
class ColdTimer {
 public:
  explicit ColdTimer(const cuda::Stream& stream);
  ~ColdTimer();
  ColdTimer(const ColdTimer&) = delete;
  ColdTimer& operator=(const ColdTimer&) = delete;

  /// Enqueues the fill of a buffer, which takes a few tenths of a millisecond and evicts the L2
  /// cache.
  void flush(int pattern);

  /// Keeps the device busy until its clocks are no longer idle.
  void warm_up();

  /// Returns the median time of each call in microseconds, over `repetitions` replays in
  /// alternation; one replay before these is not counted.
  std::vector<double> medians(const std::vector<TimedCall>& calls, int repetitions);

 private:
  const cuda::Stream& stream_;
  cuda::DeviceBuffer flushed_;
  std::vector<cudaEvent_t> events_;
};

}  // namespace fairdraw::suites
