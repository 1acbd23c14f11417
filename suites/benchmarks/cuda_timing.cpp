#include "suites/benchmarks/cuda_timing.h"

#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>

#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kFlushedBytes = std::int64_t{512} << 20U;  // an H200's L2 has 60 MB
constexpr std::chrono::milliseconds kWarmUp{500};

}  // namespace

void expect_success(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) throw std::runtime_error(what + ": " + cudaGetErrorString(status));
}

void expect_success(const Error& error, const std::string& what) {
  if (error) throw std::runtime_error(what + ": " + error.message);
}

CapturedCall::CapturedCall(const cuda::Stream& stream, const std::function<void()>& call) {
  expect_success(cudaStreamBeginCapture(handle(stream), cudaStreamCaptureModeThreadLocal),
                 "begin of a capture");
  std::exception_ptr thrown;
  try {
    call();
  } catch (...) {
    thrown = std::current_exception();  // the capture must end before any other work can run
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(handle(stream), &graph);
  if (thrown) {
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    std::rethrow_exception(thrown);
  }
  expect_success(ended, "end of a capture");
  const cudaError_t instantiated = cudaGraphInstantiate(&graph_, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  expect_success(instantiated, "a graph");
}

CapturedCall::~CapturedCall() { static_cast<void>(cudaGraphExecDestroy(graph_)); }

void CapturedCall::replay(const cuda::Stream& stream) const {
  expect_success(cudaGraphLaunch(graph_, handle(stream)), "replay of a graph");
}

ColdTimer::ColdTimer(const cuda::Stream& stream) : stream_(stream) {
  expect_success(flushed_.reserve(kFlushedBytes), "the buffer that flushes L2");
}

ColdTimer::~ColdTimer() {
  for (const cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
}

void ColdTimer::flush(int pattern) {
  expect_success(flushed_.fill(0, static_cast<std::uint8_t>(pattern), kFlushedBytes, stream_),
                 "a flush of L2");
}

void ColdTimer::warm_up() {
  constexpr int kFillsAtATime = 16;
  const auto end = std::chrono::steady_clock::now() + kWarmUp;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < kFillsAtATime; ++i) flush(0);
    expect_success(cudaStreamSynchronize(handle(stream_)), "fills");
  }
}

std::vector<double> ColdTimer::medians(const std::vector<TimedCall>& calls, int repetitions) {
  const std::size_t replays = calls.size() * static_cast<std::size_t>(repetitions + 1);
  while (events_.size() < 2 * replays) {
    cudaEvent_t event = nullptr;
    expect_success(cudaEventCreate(&event), "an event");
    events_.push_back(event);
  }
  for (std::size_t i = 0; i < replays; ++i) {
    const TimedCall& timed = calls[i % calls.size()];
    if (timed.before) timed.before();
    flush(static_cast<int>(i));
    if (timed.cold) timed.cold();
    expect_success(cudaEventRecord(events_[2 * i], handle(stream_)), "an event");
    timed.call->replay(stream_);
    expect_success(cudaEventRecord(events_[2 * i + 1], handle(stream_)), "an event");
  }
  expect_success(cudaStreamSynchronize(handle(stream_)), "timed replays");

  std::vector<double> medians;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    std::vector<double> microseconds;
    for (std::size_t i = call + calls.size(); i < replays; i += calls.size()) {
      float elapsed = 0;
      expect_success(cudaEventElapsedTime(&elapsed, events_[2 * i], events_[2 * i + 1]),
                     "time between events");
      microseconds.push_back(static_cast<double>(elapsed) * 1e3);
    }
    medians.push_back(median(std::move(microseconds)));
  }
  return medians;
}

}  // namespace fairdraw::suites
