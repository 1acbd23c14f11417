#include "suites/benchmarks/cuda_benchmarks.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_kept_sets.h"
#include "fairdraw/cuda_memory.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "harness/contract/usage_error.h"
#include "suites/benchmarks/benchmark_processing.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_floor.h"
#include "suites/benchmarks/cuda_machine.h"
#include "suites/benchmarks/cuda_timing.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kCheckedRows = 8;  // of a cell, compared with the CPU

std::int64_t element_size(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

/// Rows of logits in device memory, the host's rows again and again.
class DeviceRows {
 public:
  DeviceRows(const Rows& host, std::int64_t batch, const cuda::Stream& stream) : host_(host) {
    const std::int64_t row_bytes = host.vocab * element_size(host.dtype);
    const std::int64_t bytes = batch * row_bytes;
    const std::int64_t period = host.batch * row_bytes;
    expect_success(values_.reserve(bytes), "the batch of logits");
    for (std::int64_t done = 0; done < bytes; done += period) {
      const std::int64_t part = std::min(period, bytes - done);
      expect_success(values_.upload(done, host.view().data, part, stream), "the batch of logits");
    }
  }

  const Rows& host() const { return host_; }
  RowsView view(std::int64_t batch) const {
    return {values_.data(), host_.dtype, batch, host_.vocab, host_.vocab};
  }
  std::int64_t bytes(std::int64_t batch) const {
    return batch * host_.vocab * element_size(host_.dtype);
  }

 private:
  const Rows& host_;
  cuda::DeviceBuffer values_;
};

/// Where the arrays of logits processing lie on the device: HostArrays' like.
class UploadedArrays {
 public:
  explicit UploadedArrays(const cuda::Stream& stream) : stream_(stream) {}

  template <class T>
  const T* in(const std::vector<T>& values) {
    if (values.empty()) return nullptr;
    cuda::DeviceBuffer& buffer = *buffers_.emplace_back(std::make_unique<cuda::DeviceBuffer>());
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    expect_success(buffer.reserve(bytes), "an array of logits processing");
    expect_success(buffer.upload(0, values.data(), bytes, stream_),
                   "an array of logits processing");
    expect_success(cudaStreamSynchronize(handle(stream_)), "an array of logits processing");
    return static_cast<const T*>(buffer.data());
  }

 private:
  const cuda::Stream& stream_;
  std::vector<std::unique_ptr<cuda::DeviceBuffer>> buffers_;
};

/// The operation of fairdraw/sampling.h that has a request's filters, on the CPU or on a GPU by the
/// type of `execution`. The request's logits are probabilities.
template <class Execution>
Error draw_from_probs(const SampleRequest& request, const SampleResult& result,
                      const reference::RowParameters& filters, const Execution& execution) {
  const RowsView& probs = request.logits;
  const DrawOptions options{request.seed, request.offset, request.indices, request.num_samples};
  const DrawResult drawn{result.tokens, result.statuses};
  if (filters.top_k > 0 && filters.top_p < 1) {
    return top_k_top_p_sampling_from_probs(probs, request.top_k, request.top_p,
                                           request.filter_order, options, drawn, execution);
  }
  if (filters.top_k > 0) {
    return top_k_sampling_from_probs(probs, request.top_k, options, drawn, execution);
  }
  if (filters.top_p < 1) {
    return top_p_sampling_from_probs(probs, request.top_p, options, drawn, execution);
  }
  if (filters.min_p > 0) {
    return min_p_sampling_from_probs(probs, request.min_p, options, drawn, execution);
  }
  return sampling_from_probs(probs, options, drawn, execution);
}

void expect_from_probs(const Operation& operation, const BenchmarkOptions& options) {
  const reference::RowParameters& p = operation.parameters;
  const bool both = p.min_p > 0 && (p.top_k > 0 || p.top_p < 1);
  if (both || p.temperature != 1 || operation.tie_rule != TieRule::keep_all) {
    throw harness::UsageError(
        fmt::format("operation {}{} has filters that no operation on probabilities has; allowed: "
                    "none, top_k_N, top_p_X, min_p_X, top_k_N+top_p_X, the last also joint",
                    kFromProbsPrefix, operation_name(operation)));
  }
  if (options.processing != std::vector<std::string>{"none"}) {
    throw harness::UsageError("operations from probabilities have no logits processing");
  }
  if (!options.dtypes.empty() && options.dtypes != std::vector<std::string>{"float32"}) {
    throw harness::UsageError("operations from probabilities are measured on float32 alone");
  }
}

/// Kept sets in device memory, of a batch of rows.
class DeviceKept {
 public:
  DeviceKept(std::int64_t batch, std::int64_t vocab, const cuda::Stream& stream)
      : room_(batch * vocab),
        offsets_(std::vector<std::int64_t>(static_cast<std::size_t>(batch + 1), -1), stream),
        overflow_(std::vector<std::uint8_t>(static_cast<std::size_t>(batch), 1), stream) {
    expect_success(ids_.reserve(room_ * std::int64_t{sizeof(std::int32_t)}), "ids of kept sets");
  }

  KeptSets view() const {
    return {{static_cast<std::int32_t*>(ids_.data()), room_}, offsets_.view(), overflow_.view()};
  }

  /// The set of a row, from the last replay.
  std::vector<std::int32_t> set(std::int64_t row, const cuda::Stream& stream) const {
    const std::vector<std::int64_t> offsets = offsets_.download(stream);
    const std::int64_t begin = offsets.at(static_cast<std::size_t>(row));
    std::vector<std::int32_t> ids(
        static_cast<std::size_t>(offsets.at(static_cast<std::size_t>(row + 1)) - begin));
    constexpr std::int64_t kSize = sizeof(std::int32_t);
    expect_success(ids_.download(ids.data(), begin * kSize,
                                 static_cast<std::int64_t>(ids.size()) * kSize, stream),
                   "a kept set");
    expect_success(cudaStreamSynchronize(handle(stream)), "a kept set");
    return ids;
  }

 private:
  std::int64_t room_;
  cuda::DeviceBuffer ids_;
  DeviceArray<std::int64_t> offsets_;
  DeviceArray<std::uint8_t> overflow_;
};

/// The request of a cell, by arrays with one value a row or by scalars, and its results.
class Cell {
 public:
  Cell(const DeviceRows& rows, std::int64_t batch, const Operation& operation,
       const std::string& processing, bool by_arrays, BenchmarkInput input,
       const cuda::Stream& stream)
      : rows_(rows),
        stream_(stream),
        batch_(batch),
        by_arrays_(by_arrays),
        input_(input),
        filters_(operation.parameters),
        host_processing_(
            make_processing(processing, rows.host().batch, rows.host().batch, rows.host().vocab)),
        processing_(make_processing(processing, batch, rows.host().batch, rows.host().vocab)),
        arrays_(stream),
        temperature_(repeated(operation.parameters.temperature), stream),
        top_k_(repeated(operation.parameters.top_k), stream),
        top_p_(repeated(operation.parameters.top_p), stream),
        min_p_(repeated(operation.parameters.min_p), stream),
        seed_(counted_from(1), stream),
        offset_(counted_from(1000), stream),
        tokens_(repeated(std::int32_t{-1}), stream),
        statuses_(repeated(RowStatus::inactive), stream) {
    request_.tie_rule = operation.tie_rule;
    request_.filter_order = operation.filter_order;
    request_.temperature = operation.parameters.temperature;
    request_.top_k = operation.parameters.top_k;
    request_.top_p = operation.parameters.top_p;
    request_.min_p = operation.parameters.min_p;
    request_.seed = std::uint64_t{1};
    request_.offset = std::uint64_t{1000};
    if (processing != "none") {
      on_device_.processing = processing_.lists.in(arrays_);
    }
    if (!processing_.allowed.empty()) {
      on_device_.allowed = {arrays_.in(processing_.allowed), batch, processing_.allowed_stride};
    }
    on_device_.logits = rows.view(batch);
    if (input == BenchmarkInput::logits_with_kept_sets) {
      kept_ = std::make_unique<DeviceKept>(batch, rows.host().vocab, stream);
    }
    const std::int64_t bytes = kept_ == nullptr
                                   ? cuda::workspace_bytes(on_device_)
                                   : cuda::workspace_bytes(on_device_, {}, kept_->view());
    expect_success(workspace_.reserve(bytes), "the workspace");
  }

  /// with_kept: false, the call without its kept sets.
  void enqueue(cuda::Path path, bool with_kept = true) const {
    SampleRequest request = request_;
    request.logits = on_device_.logits;
    request.processing = on_device_.processing;
    request.allowed = on_device_.allowed;
    if (by_arrays_) {
      request.temperature = temperature_.per_request();
      request.top_k = top_k_.per_request();
      request.top_p = top_p_.per_request();
      request.min_p = min_p_.per_request();
      request.seed = seed_.per_request();
      request.offset = offset_.per_request();
    }
    SampleResult result;
    result.tokens = tokens_.view();
    result.statuses = statuses_.view();
    cuda::Execution execution;
    execution.stream = stream_.get();
    execution.workspace = workspace_.data();
    execution.workspace_bytes = workspace_.size();
    execution.path = path;
    if (input_ == BenchmarkInput::probs) {
      expect_success(draw_from_probs(request, result, filters_, execution), "the call");
    } else if (kept_ != nullptr && with_kept) {
      expect_success(cuda::sample_with_kept_sets(request, result, kept_->view(), execution),
                     "the call");
    } else {
      expect_success(cuda::sample(request, result, execution), "the call");
    }
  }

  /// Between replays: every row's offset moves on, in device memory.
  void advance() const {
    if (!by_arrays_) return;
    expect_success(advance_offsets(offset_.data(), batch_, handle(stream_)), "new offsets");
  }

  /// What is wrong with the tokens of the last replay; empty: nothing.
  std::string trouble() const {
    const std::vector<std::int32_t> tokens = tokens_.download(stream_);
    const std::vector<RowStatus> statuses = statuses_.download(stream_);
    const std::vector<std::uint64_t> offsets = offset_.download(stream_);
    for (std::size_t row = 0; row < statuses.size(); ++row) {
      if (statuses[row] != RowStatus::ok) {
        return fmt::format("row {} has status {}", row, to_string(statuses[row]));
      }
    }
    const std::int64_t checked = std::min(batch_, kCheckedRows);
    for (std::int64_t i = 0; i < checked; ++i) {
      // With one seed for the call a token depends on its row's number: there the first rows.
      const bool spread = by_arrays_ && checked > 1;
      const std::int64_t row = spread ? i * (batch_ - 1) / (checked - 1) : i;
      const auto at = static_cast<std::size_t>(row);
      const std::int32_t expected = cpu_token(row, offsets[at]);
      if (tokens[at] != expected) {
        return fmt::format("row {} has token {}, on the CPU {}", row, tokens[at], expected);
      }
      if (kept_ != nullptr && kept_->set(row, stream_) != cpu_set(row)) {
        return fmt::format("row {} has another kept set than on the CPU", row);
      }
    }
    return {};
  }

 private:
  template <class T>
  std::vector<T> repeated(T value) const {
    return std::vector<T>(static_cast<std::size_t>(batch_), value);
  }
  std::vector<std::uint64_t> counted_from(std::uint64_t first) const {
    std::vector<std::uint64_t> values(static_cast<std::size_t>(batch_));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + i;
    return values;
  }

  std::int32_t cpu_token(std::int64_t row, std::uint64_t offset) const {
    const Rows& host = rows_.host();
    // A scalar seed counts the outputs of the call: the rows up to this one, the last token.
    const std::int64_t outputs = by_arrays_ ? 1 : row + 1;
    const std::uint64_t seed = 1 + static_cast<std::uint64_t>(row);
    std::vector<std::int32_t> indices(static_cast<std::size_t>(outputs), 0);
    indices.back() = static_cast<std::int32_t>(row % host.batch);
    std::vector<std::int32_t> tokens(indices.size());
    SampleRequest request = request_;
    request.logits = host.view();
    harness::HostArrays arrays;
    if (on_device_.processing.given()) {
      request.processing = host_processing_.lists.in(arrays);
    }
    if (on_device_.allowed.given()) {
      request.allowed = {host_processing_.allowed.data(), host.batch,
                         host_processing_.allowed_stride};
    }
    request.indices = {indices.data(), outputs};
    if (by_arrays_) {
      request.seed = {&seed, 1};
      request.offset = {&offset, 1};
    }
    SampleResult result;
    result.tokens = {tokens.data(), outputs};
    expect_success(input_ == BenchmarkInput::probs
                       ? draw_from_probs(request, result, filters_, Execution{})
                       : sample(request, result),
                   "the CPU's token");
    return tokens.back();
  }

  std::vector<std::int32_t> cpu_set(std::int64_t row) const {
    const Rows& host = rows_.host();
    const auto index = static_cast<std::int32_t>(row % host.batch);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(host.vocab));
    std::vector<std::int64_t> offsets(2);
    std::int32_t token = 0;
    SampleRequest request = request_;
    request.logits = host.view();
    harness::HostArrays arrays;
    if (on_device_.processing.given()) request.processing = host_processing_.lists.in(arrays);
    if (on_device_.allowed.given()) {
      request.allowed = {host_processing_.allowed.data(), host.batch,
                         host_processing_.allowed_stride};
    }
    request.indices = {&index, 1};
    SampleResult result;
    result.tokens = {&token, 1};
    expect_success(
        sample_with_kept_sets(request, result, {{ids.data(), host.vocab}, {offsets.data(), 2}, {}}),
        "the CPU's kept set");
    ids.resize(static_cast<std::size_t>(offsets[1]));
    return ids;
  }

  const DeviceRows& rows_;
  const cuda::Stream& stream_;
  std::int64_t batch_;
  bool by_arrays_;
  BenchmarkInput input_;
  reference::RowParameters filters_;
  BatchProcessing host_processing_;  ///< of the host's rows
  BatchProcessing processing_;
  UploadedArrays arrays_;
  SampleRequest request_;    ///< without logits; every parameter a scalar
  SampleRequest on_device_;  ///< logits, processing and bitmask alone
  DeviceArray<float> temperature_;
  DeviceArray<std::int32_t> top_k_;
  DeviceArray<float> top_p_, min_p_;
  DeviceArray<std::uint64_t> seed_, offset_;
  DeviceArray<std::int32_t> tokens_;
  DeviceArray<RowStatus> statuses_;
  cuda::DeviceBuffer workspace_;
  std::unique_ptr<DeviceKept> kept_;  ///< where the call has them
};

BenchmarkOptions with_cuda_lists(BenchmarkOptions options) {
  if (options.vocabs.empty()) options.vocabs = {32000, 128256, 262144};
  if (options.batches.empty()) options.batches = {1, 8, 64, 256};
  if (options.dtypes.empty()) options.dtypes = {"float32", "bfloat16"};
  if (options.logits.empty()) options.logits = {"peaked", "flat"};
  return options;
}

/// Captured rows have the vocabulary of their file, whatever the list says.
std::vector<std::int64_t> vocabs_for(const std::string& logits, const BenchmarkOptions& options) {
  if (logits == "captured") return {options.vocabs.front()};
  return options.vocabs;
}

std::vector<Operation> table_operations() {
  return parse_operations({"top_k_50+top_p_0.9", "top_p_0.9", "top_k_50", "top_k_1000",
                           "min_p_0.05", "none", "greedy"});
}

}  // namespace

std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions& given,
                                                          const std::vector<std::string>& backends,
                                                          BenchmarkInput input,
                                                          std::vector<std::string>& failures) {
  BenchmarkOptions options = with_cuda_lists(given);
  const std::vector<Operation> operations = operations_of(options, table_operations());
  if (input == BenchmarkInput::probs) {
    for (const Operation& operation : operations) expect_from_probs(operation, given);
    options.dtypes = {"float32"};
  }
  expect_available(backends);
  const bool by_arrays = options.parameters == "array";
  const cudaDeviceProp properties = device_properties();
  const std::string machine = machine_text(properties);
  const std::int64_t largest_batch =
      *std::max_element(options.batches.begin(), options.batches.end());
  cuda::Stream stream;
  expect_success(stream.create(), "a stream");
  ColdTimer timer(stream);
  timer.warm_up();

  std::vector<harness::BenchmarkRecord> records;
  const auto measure = [&](const DeviceRows& rows, const Floor& floor, std::int64_t batch,
                           const Operation& operation, const std::string& processing,
                           const std::string& backend, const std::string& dtype,
                           const std::string& kind) {
    const bool has_kept = input == BenchmarkInput::logits_with_kept_sets;
    const std::string call = input == BenchmarkInput::probs
                                 ? kFromProbsPrefix + operation_name(operation)
                                 : (has_kept ? kKeptPrefix : "") + call_name(operation, processing);
    const std::string cell = fmt::format("{} {} batch {} vocab {} {} {}", backend, call, batch,
                                         rows.host().vocab, dtype, kind);
    try {
      const Cell work(rows, batch, operation, processing, by_arrays, input, stream);
      const auto enqueue = [&] { work.enqueue(path_of(backend)); };
      enqueue();  // loads the kernel: not a part of the capture
      const CapturedCall captured(stream, enqueue);
      const auto advance = [&work] { work.advance(); };
      std::unique_ptr<CapturedCall> plain;
      if (has_kept) {
        plain = std::make_unique<CapturedCall>(
            stream, [&] { work.enqueue(path_of(backend), /*with_kept=*/false); });
      }
      const TimedCall beside =
          has_kept ? TimedCall{plain.get(), advance} : TimedCall{&floor.call(), {}};
      const std::vector<double> times = timer.medians({beside, {&captured, advance}}, kRepetitions);
      if (const std::string trouble = work.trouble(); !trouble.empty()) {
        failures.push_back(cell + ": " + trouble);
      }
      records.push_back({by_arrays ? backend : backend + "@scalar", call, batch, rows.host().vocab,
                         dtype, kind, times[1], has_kept ? "sample" : "read_once", times[0],
                         times[1] / times[0], machine});
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(cell + ": " + error.what());
    }
  };
  for (const std::string& kind : options.logits) {
    for (const std::string& dtype : options.dtypes) {
      for (const std::int64_t vocab : vocabs_for(kind, options)) {
        Rows host = make_rows(kind, std::min(largest_batch, kDistinctRows), vocab, dtype,
                              options.data_directory);
        if (input == BenchmarkInput::probs) host = probability_rows(host);
        const DeviceRows rows(host, largest_batch, stream);
        fmt::print(stderr, "fairdraw: bench: {} {} vocab {}\n", kind, dtype, host.vocab);
        for (const std::int64_t batch : options.batches) {
          const Floor floor(rows.view(batch).data, rows.host().dtype, rows.bytes(batch), stream,
                            timer);
          for (const Operation& operation : operations) {
            for (const std::string& backend : backends) {
              for (const std::string& processing : options.processing) {
                measure(rows, floor, batch, operation, processing, backend, dtype, kind);
              }
            }
          }
        }
      }
    }
  }
  return records;
}

}  // namespace fairdraw::suites
