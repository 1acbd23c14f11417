// A shard of a call, with its arrays in memory of the current device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/cuda_sharded.h"
#include "tests/cuda/arrays.h"

namespace fairdraw::suites {

/// One shard of a call, in device memory.
class DeviceShard {
 public:
  /// reports: which arrays are wanted, of which mode; where they lie is nothing.
  DeviceShard(const ShardedRequest& host, bool wants_mask, const LogprobsResult& reports = {})
      : shard_(host.shard), request_(host), columns_(host.rows.logits.vocab) {
    const SampleRequest& rows = host.rows;
    const auto outputs = static_cast<std::size_t>(rows.logits.rows);
    const std::size_t samples = outputs * static_cast<std::size_t>(rows.num_samples);
    SampleRequest& mine = request_.rows;
    if (columns_ > 0) mine.logits.data = copy_rows(rows.logits);
    mine.temperature = copy(rows.temperature);
    mine.top_k = copy(rows.top_k);
    mine.top_p = copy(rows.top_p);
    mine.min_p = copy(rows.min_p);
    mine.seed = copy(rows.seed);
    mine.offset = copy(rows.offset);
    if (rows.allowed.given()) {
      mine.allowed.data = arrays_.in(std::vector<std::uint32_t>(
          rows.allowed.data, rows.allowed.data + rows.allowed.rows * rows.allowed.row_stride));
    }
    if (rows.active.given()) mine.active.data = copy(rows.active).data;
    tokens.assign(samples, -77);
    statuses.assign(outputs, static_cast<RowStatus>(-77));
    support_size.assign(outputs, -77);
    logprob.assign(samples, -77);
    logprob_filtered = logprob;
    mask_words = std::max<std::int64_t>((columns_ + 31) / 32, 1);
    mask.assign(outputs * static_cast<std::size_t>(mask_words), 0x5a5a5a5aU);
    const auto view = [this](auto& array) {
      return View(arrays_.out(array), static_cast<std::int64_t>(array.size()));
    };
    result_.tokens = view(tokens);
    result_.statuses = view(statuses);
    result_.support_size = view(support_size);
    result_.logprob = view(logprob);
    result_.logprob_filtered = view(logprob_filtered);
    values = logprob;
    top_ids.assign(outputs * static_cast<std::size_t>(reports.top_n), -77);
    top_values.assign(top_ids.size(), -77);
    result_.logprobs.mode = reports.mode;
    result_.logprobs.top_n = reports.top_n;
    if (reports.values.given()) result_.logprobs.values = view(values);
    if (reports.top_ids.given()) result_.logprobs.top_ids = view(top_ids);
    if (reports.top_values.given()) result_.logprobs.top_values = view(top_values);
    if (wants_mask) result_.mask = {arrays_.out(mask), rows.logits.rows, mask_words};
  }

  Error begin(void* stream = nullptr) {
    const std::int64_t bytes = cuda::workspace_bytes(request_, result_);
    workspace_.assign(static_cast<std::size_t>(bytes), 0xcd);
    cuda::Execution execution;
    execution.stream = stream;
    execution.workspace = arrays_.out(workspace_);
    execution.workspace_bytes = bytes;
    return cuda::make_sharded_call(request_, result_, execution, call);
  }

  void fetch() { arrays_.fetch(); }
  /// Memory of this shard that a test changes between replays.
  void* logits() const { return const_cast<void*>(request_.rows.logits.data); }

  /// This shard's block of an exchange.
  std::vector<std::byte> block(cuda::ShardedExchange exchange) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(call.bytes(exchange)));
    require(cudaDeviceSynchronize(), "a kernel");
    require(cudaMemcpy(bytes.data(), call.send(exchange), bytes.size(), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return bytes;
  }
  std::int32_t undecided() const {
    std::int32_t rows = 0;
    require(cudaDeviceSynchronize(), "a kernel");
    require(cudaMemcpy(&rows, call.undecided(), sizeof(rows), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return rows;
  }

  cuda::ShardedCall call;
  std::vector<std::int32_t> tokens, support_size;
  std::vector<RowStatus> statuses;
  std::vector<float> logprob, logprob_filtered, values, top_values;
  std::vector<std::int32_t> top_ids;
  std::vector<std::uint32_t> mask;
  std::int64_t mask_words = 0;

 private:
  /// At an address that is aligned as it is on the host.
  const void* copy_rows(const RowsView& rows) {
    constexpr std::size_t kAlignment = 16;
    const std::size_t size = rows.dtype == DType::float32 ? 4 : 2;
    const auto* from = static_cast<const std::uint8_t*>(rows.data);
    const std::size_t at = reinterpret_cast<std::uintptr_t>(from) % kAlignment;
    const auto bytes =
        static_cast<std::size_t>((rows.rows - 1) * rows.row_stride + rows.vocab) * size;
    std::vector<std::uint8_t> padded(at + bytes);
    std::copy_n(from, bytes, padded.data() + at);
    return arrays_.in(padded) + at;
  }
  template <class T>
  View<const T> copy(const View<const T>& view) {
    return {arrays_.in(std::vector<T>(view.data, view.data + view.size)), view.size};
  }
  template <class T>
  PerRequest<T> copy(const PerRequest<T>& parameter) {
    if (!parameter.is_array()) return parameter;
    const View<const T> copied = copy(parameter.values);
    return {copied.data, copied.size};
  }

  std::int32_t shard_;
  ShardedRequest request_;
  SampleResult result_;
  std::int64_t columns_;
  DeviceArrays arrays_;
  std::vector<std::uint8_t> workspace_;
};

}  // namespace fairdraw::suites
