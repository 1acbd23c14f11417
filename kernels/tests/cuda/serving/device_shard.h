// One shard of a call, with its arrays in the memory of the current device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/cuda_sharded.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/copies.h"

namespace fairdraw::suites {

/// The results that a shard requests besides statuses, a mask and reports.
enum class ShardWants { columns, tokens, survivors };

/// One shard of a sharded call, in device memory.
class DeviceShard {
 public:
  /// reports: the log-probability arrays to request and their mode; the addresses of these arrays
  /// are ignored.
  DeviceShard(const ShardedRequest& host, bool wants_mask, const LogprobsResult& reports = {},
              ShardWants wants = ShardWants::survivors)
      : shard_(host.shard), request_(host), columns_(host.rows.logits.vocab) {
    const SampleRequest& rows = host.rows;
    const auto outputs =
        static_cast<std::size_t>(rows.indices.given() ? rows.indices.size : rows.logits.rows);
    const std::size_t samples = outputs * static_cast<std::size_t>(rows.num_samples);
    SampleRequest& mine = request_.rows;
    if (columns_ > 0) mine.logits.data = copy_rows(rows.logits);
    mine.temperature = copies_.in(rows.temperature);
    mine.top_k = copies_.in(rows.top_k);
    mine.top_p = copies_.in(rows.top_p);
    mine.min_p = copies_.in(rows.min_p);
    mine.seed = copies_.in(rows.seed);
    mine.offset = copies_.in(rows.offset);
    if (rows.allowed.given()) {
      mine.allowed.data = copies_.arrays().in(std::vector<std::uint32_t>(
          rows.allowed.data, rows.allowed.data + rows.allowed.rows * rows.allowed.row_stride));
    }
    if (rows.indices.given()) mine.indices = copies_.in(rows.indices);
    if (rows.active.given()) mine.active.data = copies_.in(rows.active).data;
    mine.processing = copies_.in(rows.processing, columns_);
    if (host.words.given()) request_.words = copies_.in(host.words);
    tokens.assign(samples, -77);
    statuses.assign(outputs, static_cast<RowStatus>(-77));
    support_size.assign(outputs, -77);
    logprob.assign(samples, -77);
    logprob_filtered = logprob;
    mask_words = std::max<std::int64_t>((columns_ + 31) / 32, 1);
    const auto matrix = static_cast<std::size_t>(rows.logits.rows);
    mask.assign(matrix * static_cast<std::size_t>(mask_words), 0x5a5a5a5aU);
    const auto view = [this](auto& array) {
      return View(copies_.arrays().out(array), static_cast<std::int64_t>(array.size()));
    };
    const bool has_logprobs = host.input == TileInput::logits;
    if (wants != ShardWants::columns) {
      result_.tokens = view(tokens);
      if (has_logprobs) result_.logprob = view(logprob);
    }
    if (wants == ShardWants::survivors) {
      result_.support_size = view(support_size);
      if (has_logprobs) result_.logprob_filtered = view(logprob_filtered);
    }
    result_.statuses = view(statuses);
    values = logprob;
    ranks.assign(samples, -77);
    all_stride = std::max<std::int64_t>(columns_, 1);
    all.assign(matrix * static_cast<std::size_t>(all_stride), -77);
    top_ids.assign(outputs * static_cast<std::size_t>(reports.top_n), -77);
    top_values.assign(top_ids.size(), -77);
    result_.logprobs.mode = reports.mode;
    result_.logprobs.rank_rule = reports.rank_rule;
    result_.logprobs.top_n = reports.top_n;
    if (reports.ranks.given()) result_.logprobs.ranks = view(ranks);
    if (reports.all.given()) {
      result_.logprobs.all = {copies_.arrays().out(all), rows.logits.rows, all_stride};
    }
    if (reports.values.given()) result_.logprobs.values = view(values);
    if (reports.top_ids.given()) result_.logprobs.top_ids = view(top_ids);
    if (reports.top_values.given()) result_.logprobs.top_values = view(top_values);
    if (wants_mask) result_.mask = {copies_.arrays().out(mask), rows.logits.rows, mask_words};
  }

  Error begin(void* stream = nullptr) {
    const std::int64_t bytes = cuda::workspace_bytes(request_, result_);
    workspace_.assign(static_cast<std::size_t>(bytes), 0xcd);
    cuda::Execution execution;
    execution.stream = stream;
    execution.workspace = copies_.arrays().out(workspace_);
    execution.workspace_bytes = bytes;
    return cuda::make_sharded_call(request_, result_, execution, call);
  }

  void fetch() { copies_.fetch(); }
  /// Returns the results' arrays in device memory.
  const SampleResult& result() const { return result_; }
  /// Returns the logits of this shard, which a test changes between replays.
  void* logits() const { return const_cast<void*>(request_.rows.logits.data); }

  /// Returns a host copy of this shard's block of an exchange.
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
  std::vector<std::int32_t> top_ids, ranks;
  std::vector<float> all;
  std::vector<std::uint32_t> mask;
  std::int64_t mask_words = 0, all_stride = 1;

 private:
  /// Copies rows to the device, at an address with the same alignment as on the host.
  const void* copy_rows(const RowsView& rows) {
    constexpr std::size_t kAlignment = 16;
    const std::size_t size = rows.dtype == DType::float32 ? 4 : 2;
    const auto* from = static_cast<const std::uint8_t*>(rows.data);
    const std::size_t at = reinterpret_cast<std::uintptr_t>(from) % kAlignment;
    const auto bytes =
        static_cast<std::size_t>((rows.rows - 1) * rows.row_stride + rows.vocab) * size;
    std::vector<std::uint8_t> padded(at + bytes);
    std::copy_n(from, bytes, padded.data() + at);
    return copies_.arrays().in(padded) + at;
  }

  std::int32_t shard_;
  ShardedRequest request_;
  SampleResult result_;
  std::int64_t columns_;
  DeviceCopies copies_;
  std::vector<std::uint8_t> workspace_;
};

}  // namespace fairdraw::suites
