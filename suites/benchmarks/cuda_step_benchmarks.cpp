#include "suites/benchmarks/cuda_step_benchmarks.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>

#include "fairdraw/cuda_fused_sampling_processor.h"
#include "fairdraw/cuda_memory.h"
#include "reference/processing_model.h"
#include "suites/benchmarks/benchmark_processing.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_calls.h"
#include "suites/benchmarks/cuda_timing.h"

namespace fairdraw::suites {
namespace {

constexpr int kHostCalls = 300;
constexpr int kStepsInARow = 8;
constexpr std::int32_t kMaxLength = 4096;

/// Makes a request with the filters of an operation and the logits processing of a row.
RequestSnapshot request_of(const Operation& operation, const BatchProcessing& processing,
                           std::int64_t row, std::int64_t vocab) {
  RequestSnapshot snapshot;
  snapshot.id = static_cast<RequestId>(row);
  BatchRequest& request = snapshot.request;
  request.temperature = operation.parameters.temperature;
  request.top_k = operation.parameters.top_k;
  request.top_p = operation.parameters.top_p;
  request.min_p = operation.parameters.min_p;
  request.seed = 1 + static_cast<std::uint64_t>(row);
  const reference::RowProcessing given =
      reference::processing_of_row(processing.lists.view(), row, static_cast<std::size_t>(vocab));
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) request.name = given.name;
#include "fairdraw/processing_parameters.inc"
  request.stop_ids = given.stop_ids;
  request.allowed_ids = given.allowed_ids;
  request.forced_tokens = given.forced_tokens;
  request.dry_breakers = given.dry_breakers;
  snapshot.output = given.output;
  for (const auto& [id, value] : given.biases) request.bias.push_back({id, value});
  auto word = given.bad_words.begin();
  for (const std::int32_t length : given.bad_word_lengths) {
    request.bad_words.emplace_back(word, word + length);
    word += length;
  }
  if (!processing.allowed.empty()) {
    const auto begin = processing.allowed.begin() + row * processing.allowed_stride;
    snapshot.allowed.assign(begin, begin + processing.allowed_stride);
  }
  return snapshot;
}

std::unique_ptr<BatchState> make_state(const Operation& operation, const std::string& processing,
                                       std::int64_t batch, std::int64_t vocab) {
  BatchStateOptions options;
  options.vocab = vocab;
  options.capacity = static_cast<std::int32_t>(batch);
  options.max_length = kMaxLength;
  options.tie_rule = operation.tie_rule;
  options.filter_order = operation.filter_order;
  std::unique_ptr<BatchState> state;
  expect_success(BatchState::make(options, state), "the batch");
  const BatchProcessing made =
      make_processing(processing, batch, std::min(batch, kDistinctRows), vocab);
  for (std::int64_t row = 0; row < batch; ++row) {
    expect_success(state->restore(request_of(operation, made, row, vocab)), "a request");
  }
  return state;
}

/// Returns the median time, in microseconds, that the host spends in a call that only enqueues
/// work. `before` and `after` run outside the measured part. The stream is synchronised from time
/// to time, so that its queue never fills up.
double host_time(const cuda::Stream& stream, const std::function<void()>& call,
                 const std::function<void()>& before = {},
                 const std::function<void()>& after = {}) {
  std::vector<double> times;
  for (int i = 0; i < kHostCalls; ++i) {
    if (i % 16 == 0) expect_success(cudaStreamSynchronize(handle(stream)), "calls");
    if (before) before();
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    times.push_back(time.count());
    if (after) after();
  }
  expect_success(cudaStreamSynchronize(handle(stream)), "calls");
  return median(times);
}

/// A CUDA event that records a time.
class TimedEvent {
 public:
  TimedEvent() { expect_success(cudaEventCreate(&event_), "an event"); }
  ~TimedEvent() { static_cast<void>(cudaEventDestroy(event_)); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  cudaEvent_t get() const { return event_; }
  void record(const cuda::Stream& stream) const {
    expect_success(cudaEventRecord(event_, handle(stream)), "an event");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Times of steps with copies of tokens between them, and of steps without copies.
struct CopyTimes {
  double with = 0, without = 0;  ///< microseconds of consecutive steps with and without copies
  int waits = 0;                 ///< number of waits for the first of the copies
  int early = 0;                 ///< number of waits that ended before the steps did
};

class StepCell {
 public:
  StepCell(const DeviceRows& rows, std::int64_t batch, const Operation& operation,
           const std::string& processing, cuda::Path path, const cuda::Stream& stream)
      : batch_(batch),
        path_(path),
        stream_(stream),
        state_(make_state(operation, processing, batch, rows.host().vocab)),
        on_cpu_(make_state(operation, processing, batch, rows.host().vocab)),
        on_device_(rows.view(batch)) {
    const RowsView host = rows.host().view();
    const std::int64_t row_bytes = rows.inputs(1).bytes;
    values_.resize(static_cast<std::size_t>(batch * row_bytes));
    const auto* const source = static_cast<const std::uint8_t*>(host.data);
    for (std::int64_t row = 0; row < batch; ++row) {
      std::copy_n(source + row % host.rows * row_bytes, row_bytes,
                  values_.begin() + row * row_bytes);
    }

    SampleRequest request;
    expect_success(state_->sample_request(on_host(), request), "the call");
    sample_ = sample_call(operation, {})(rows, batch, processing, stream);
    cuda::FusedSamplingOptions options;
    options.stream = stream.get();
    options.path = path_;
    options.processing = processing != "none";
    options.bitmask = request.allowed.given();
    options.logit_offsets = false;
    options.most_copies = kStepsInARow;
    expect_success(cuda::FusedSamplingProcessor::make(*state_, options, processor_),
                   "the processor");
  }

  void sample() const { sample_->enqueue(path_); }
  void step() const { expect_success(processor_->step(on_device_), "a step"); }
  void copy() const { expect_success(processor_->start_async_token_copy(), "a copy"); }
  cuda::CopiedStep wait() const {
    cuda::CopiedStep step;
    expect_success(processor_->wait_for_tokens(step), "tokens");
    return step;
  }
  void bring_changes() const { expect_success(processor_->bring_changes(), "changes"); }

  /// Makes a first step on the GPU and on the CPU, and compares the tokens. Returns a text about a
  /// difference in the tokens of the first step, or an empty string.
  std::string trouble() const {
    step();
    copy();
    const cuda::CopiedStep got = wait();
    FusedSamplingProcessor cpu(*on_cpu_);
    expect_success(cpu.step(on_host()), "a step on the CPU");
    for (std::int64_t row = 0; row < batch_; ++row) {
      if (got.statuses.data[row] != RowStatus::ok) {
        return fmt::format("row {} has status {}", row, to_string(got.statuses.data[row]));
      }
      if (got.tokens.data[row] != cpu.new_tokens().data[row]) {
        return fmt::format("row {} has token {}, on the CPU {}", row, got.tokens.data[row],
                           cpu.new_tokens().data[row]);
      }
    }
    return {};
  }

  /// Returns the microseconds of consecutive steps, which follow a fill that takes longer than
  /// enqueueing the steps.
  double steps_in_a_row(bool with_copies, ColdTimer& timer, CopyTimes& times) const {
    constexpr int kFills = 8;
    for (int i = 0; i < kFills; ++i) timer.flush(i);
    begin_.record(stream_);
    for (int i = 0; i < kStepsInARow; ++i) {
      step();
      if (with_copies) copy();
    }
    end_.record(stream_);
    if (with_copies) {
      wait();
      ++times.waits;
      times.early += cudaEventQuery(end_.get()) == cudaErrorNotReady ? 1 : 0;
      for (int i = 1; i < kStepsInARow; ++i) wait();
    }
    expect_success(cudaEventSynchronize(end_.get()), "steps");
    static_cast<void>(cudaGetLastError());  // clears the error that a query before the end leaves
    float milliseconds = 0;
    expect_success(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "steps");
    return static_cast<double>(milliseconds) * 1e3;
  }

 private:
  RowsView on_host() const {
    RowsView rows = on_device_;
    rows.data = values_.data();
    return rows;
  }

  std::int64_t batch_;
  cuda::Path path_;
  const cuda::Stream& stream_;
  std::unique_ptr<BatchState> state_, on_cpu_;
  RowsView on_device_;
  std::vector<std::uint8_t> values_;
  std::unique_ptr<CudaCall> sample_;
  std::unique_ptr<cuda::FusedSamplingProcessor> processor_;
  TimedEvent begin_, end_;
};

CopyTimes time_copies(const StepCell& cell, ColdTimer& timer) {
  CopyTimes times;
  std::vector<double> with;
  std::vector<double> without;
  for (int i = 0; i < kRepetitions; ++i) {
    without.push_back(cell.steps_in_a_row(false, timer, times));
    cell.copy();  // frees the ring
    cell.wait();
    with.push_back(cell.steps_in_a_row(true, timer, times));
  }
  times.with = median(with);
  times.without = median(without);
  return times;
}

}  // namespace

std::string measure_step(const Operation& operation, const std::string& processing, cuda::Path path,
                         const DeviceRows& rows, const harness::BenchmarkRecord& of_cell,
                         const cuda::Stream& stream, ColdTimer& timer,
                         std::vector<harness::BenchmarkRecord>& records) {
  const StepCell cell(rows, of_cell.batch, operation, processing, path, stream);
  std::string trouble = cell.trouble();
  const auto record = [&](const char* what, const char* beside, double time, double floor) {
    harness::BenchmarkRecord& added = records.emplace_back(of_cell);
    added.operation += what;
    added.microseconds = time;
    added.floor = beside;
    added.floor_microseconds = floor;
    added.ratio = time / floor;
  };
  const CopyTimes copies = time_copies(cell, timer);
  const double host_copy =
      host_time(stream, [&] { cell.copy(); }, [&] { cell.step(); }, [&] { cell.wait(); });
  const double host_step = host_time(stream, [&] { cell.step(); });
  const double host_sample = host_time(stream, [&] { cell.sample(); });
  // Uses a separate batch, because in this batch the histories have grown for the steps, but not
  // for `sample`.
  const StepCell fresh(rows, of_cell.batch, operation, processing, path, stream);
  fresh.bring_changes();
  const CapturedCall sample(stream, [&] { fresh.sample(); });
  const CapturedCall step(stream, [&] { fresh.step(); });
  const std::vector<double> device = timer.medians({{&sample, {}}, {&step, {}}}, kRepetitions);
  record("", "sample", device[1], device[0]);
  record("@host", "sample@host", host_step, host_sample);
  record("@copies", "steps", copies.with, copies.without);
  fmt::print(stderr,
             "fairdraw: bench: {}: a step adds {:.1f} us of host time to {:.1f} of sample, a copy "
             "of its tokens {:.1f}; {} of {} waits for the first copy of {} steps were over before "
             "the steps were\n",
             cell_name(of_cell), host_step - host_sample, host_sample, host_copy, copies.early,
             copies.waits, kStepsInARow);
  return trouble;
}

}  // namespace fairdraw::suites
