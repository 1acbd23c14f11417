// Sharded sampling on the GPU (fairdraw/cuda_sharded.h): the checks, the layout of a call in its
// workspace, and the kernels of each exchange, which are in sharded/.
#include <string>
#include <utility>

#include "common/arguments.h"
#include "common/bump_allocator.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/calls/sharded_peers.h"
#include "cuda/calls/sharded_rows.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/device/tile_spread.h"
#include "cuda/outputs/draw_outputs.h"
#include "cuda/outputs/write_rows.h"
#include "cuda/sharded/sharded_task.h"
#include "fairdraw/cuda_sharded.h"
#include "sharded/call_layout.h"

namespace fairdraw::cuda {

struct ShardedCall::Parts {
  ShardedTask task{};
  ProcessedColumns processed;
  TileSpread spread;
  RowsOutputTask rows;  ///< task that writes the mask, if the call requests a mask
  Path path = Path::best;
  cudaStream_t stream = nullptr;

  Error index() const;
  Error begin_without_rows() const;
  Error sample_gathered() const;
  Error exchange_summaries(bool with_tokens) const;
  Error write_columns() const;
};

namespace {

using sharded::ArraysLie;

Error not_there(const std::string& field) {
  return {ErrorCode::unsupported,
          field + " is given; allowed: none, in a sharded call on GPUs (the CPU has it)"};
}

/// Returns an error for a request that only the CPU supports.
Error check_supported(const ShardedRequest& request, const SampleResult& result) {
  const SampleRequest& rows = request.rows;
  const std::int64_t shards = request.boundaries.size - 1;
  if (shards > kMaxDeviceShards) {
    return {ErrorCode::unsupported, "shards is " + std::to_string(shards) + "; allowed: 1 to " +
                                        std::to_string(kMaxDeviceShards) + " on GPUs"};
  }
  if (request.top_k_1_keeps_ties) return not_there("top_k_1_keeps_ties");
  // The tokens of a row are counted by a signed integer of 32 bits.
  constexpr std::int64_t kMaxTokens = 0x7fffffff;
  const std::int64_t tokens = outputs_of(rows) * rows.num_samples;
  if (rows.indices.given() && tokens > kMaxTokens) {
    return {ErrorCode::unsupported, "length of indices * num_samples is " + std::to_string(tokens) +
                                        "; allowed: 0 to " + std::to_string(kMaxTokens) +
                                        " in a sharded call on GPUs"};
  }
  if (result.probs.given()) return not_there("probs");
  return {};
}

Error check_pointers(const ShardedRequest& request, const SampleResult& result,
                     const Execution& execution) {
  const SampleRequest& rows = request.rows;
  DevicePointers pointers;
  if (rows.logits.vocab > 0) pointers.check("logits", rows.logits);
  pointers.check("temperature", rows.temperature);
  pointers.check("top_k", rows.top_k);
  pointers.check("top_p", rows.top_p);
  pointers.check("min_p", rows.min_p);
  pointers.check("seed", rows.seed);
  pointers.check("offset", rows.offset);
  if (rows.logits.vocab > 0) pointers.check("allowed", rows.allowed);
  pointers.check(processing_of_columns(rows));
  pointers.check("words", request.words);
  pointers.check("active", rows.active);
  pointers.check("indices", rows.indices);
  pointers.check("tokens", result.tokens);
  pointers.check("statuses", result.statuses);
  pointers.check("support_size", result.support_size);
  pointers.check("logprob", result.logprob);
  pointers.check("logprob_filtered", result.logprob_filtered);
  pointers.check("logprobs.values", result.logprobs.values);
  pointers.check("logprobs.ranks", result.logprobs.ranks);
  pointers.check("logprobs.top_ids", result.logprobs.top_ids);
  pointers.check("logprobs.top_values", result.logprobs.top_values);
  if (rows.logits.vocab > 0) pointers.check("mask", result.mask);
  if (rows.logits.vocab > 0) pointers.check("logprobs.all", result.logprobs.all);
  pointers.check_workspace(execution, workspace_bytes(request, result), rows.logits.rows);
  return pointers.error();
}

Error check_call_of_shard(const ShardedRequest& request, const SampleResult& result) {
  if (Error error = sharded::check_sharded(request, result)) return error;
  if (Error error = sharded::check_row_filters(request.rows, /*arrays_are_readable=*/false)) {
    return error;
  }
  return check_batch(request.rows.logits, "logits");
}

/// Computes the offsets of a call's blocks in peer memory, and returns the number of bytes that the
/// blocks take.
std::int64_t place_peers(std::int64_t max_rows, ShardedTask& task) {
  PeerBlocks& peers = task.peers;
  peers.max_rows = max_rows;
  peers.flags_end = end_of_flags(task.shards, max_rows);
  std::int64_t at = 0;
  for (int exchange = 0; exchange < kExchanges; ++exchange) {
    const bool is_gather = exchange == static_cast<int>(ShardedExchange::gather);
    peers.at[exchange] = at;
    peers.each[exchange] = aligned_in_peers(task.bytes[exchange]);
    const std::int64_t copies = is_gather ? kGatherCopies : 1;
    at += copies * task.shards * peers.each[exchange];
  }
  return bytes_with_halves(peers.flags_end, at);
}

}  // namespace

std::int64_t workspace_bytes(const ShardedRequest& request, const SampleResult& result) noexcept {
  if (check_call_of_shard(request, result) || check_supported(request, result)) return 0;
  BumpAllocator memory(nullptr);
  ShardedTask task{};
  ProcessedColumns processed;
  place_sharded_rows(request, result, task, processed, memory);
  place_sharded_blocks(task, memory);
  return memory.bytes();
}

ShardedCall::ShardedCall() = default;
ShardedCall::~ShardedCall() = default;
ShardedCall::ShardedCall(ShardedCall&&) noexcept = default;
ShardedCall& ShardedCall::operator=(ShardedCall&&) noexcept = default;

std::byte* ShardedCall::send(ShardedExchange exchange) const {
  return parts_->task.send[static_cast<int>(exchange)];
}
std::byte* ShardedCall::receive(ShardedExchange exchange) const {
  return parts_->task.receive[static_cast<int>(exchange)];
}
std::int64_t ShardedCall::bytes(ShardedExchange exchange) const {
  return parts_->task.bytes[static_cast<int>(exchange)];
}
const std::int32_t* ShardedCall::undecided() const { return parts_->task.undecided; }
std::int32_t ShardedCall::gathers(std::int32_t rows) const {
  const std::int32_t group = parts_->task.gathered.count;
  return rows <= 0 || group == 0 ? 0 : (rows - 1) / group + 1;
}

Error make_sharded_call(const ShardedRequest& request, const SampleResult& result,
                        const Execution& execution, ShardedCall& call) {
  if (Error error = check_call_of_shard(request, result)) return error;
  if (Error error = check_supported(request, result)) return error;
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_pointers(request, result, execution)) return error;
  auto parts = std::make_unique<ShardedCall::Parts>();
  BumpAllocator memory(execution.workspace);
  ShardedTask& task = parts->task;
  place_sharded_rows(request, result, task, parts->processed, memory);
  place_sharded_blocks(task, memory);
  task.fingerprint = sharded::fingerprint_of(request, result, ArraysLie::on_device);
  parts->path = path;
  parts->stream = stream_of(execution);
  if (task.rows() > 0 && task.whole.vocab > 0) {
    if (Error error = check_call("best_spread", best_spread(task.whole, path, parts->spread))) {
      return error;
    }
  }
  if (task.records != nullptr && result.mask.given()) {
    parts->rows.filtered = {task.columns, task.from_probs, task.temperature, task.allowed,
                            {},           task.records};
    parts->rows.mask = result.mask;
  }
  call.parts_ = std::move(parts);
  return {};
}

std::int64_t peer_bytes(const ShardedCall& call, std::int64_t most_rows) {
  ShardedTask task = call.parts_->task;
  return check_max_rows(most_rows, task.rows()) ? 0 : place_peers(most_rows, task);
}

Error use_peers(ShardedCall& call, const ShardedPeers& peers) {
  ShardedTask task = call.parts_->task;
  if (Error error = check_max_rows(peers.most_rows, task.rows())) return error;
  const std::int64_t needed = place_peers(peers.most_rows, task);
  if (Error error = take_peers(peers, needed, task.shards, task.peers)) return error;
  call.parts_->task = task;
  return {};
}

/// Begins a call that has no rows, in which every output that names a row fails.
Error ShardedCall::Parts::begin_without_rows() const {
  if (task.indices.size > 0) {
    if (Error error = check_launch("list_outputs", list_outputs(task, stream))) return error;
  }
  return decide_none(task, stream);
}

/// Enqueues the kernels that index the rows, which are the first kernels of a call.
Error ShardedCall::Parts::index() const {
  if (task.indices.given()) {
    if (Error error = check_launch("list_outputs", list_outputs(task, stream))) return error;
  }
  if (Error error = index_sharded_rows(task, processed, spread, stream)) return error;
  if (task.raw_at == 0 || task.whole.vocab == 0) return {};
  ShardedTask raw = task;
  raw.temperature = 1.0F;
  raw.sums.data = task.raw_sums;
  raw.groups = nullptr;
  raw.shifted = {};
  if (task.raw.given) {
    raw.columns = task.raw.columns;
    raw.whole = task.raw.whole;
    raw.allowed = raw.whole_allowed = {};
    raw.keys = task.raw.keys;
    raw.counts = task.raw.counts;
  }
  return check_launch("index_shard", index_shard(raw, spread, stream));
}

Error sharded_send(const ShardedCall& call, ShardedExchange exchange) {
  const ShardedCall::Parts& parts = *call.parts_;
  if (parts.task.rows() == 0) {
    return exchange == ShardedExchange::summary ? parts.begin_without_rows() : Error{};
  }
  switch (exchange) {
    case ShardedExchange::summary:
      break;
    case ShardedExchange::tokens:
    case ShardedExchange::sums:
      if (call.bytes(exchange) == 0) return {};
      return check_launch("answer_rows", answer_rows(parts.task, exchange, parts.stream));
    case ShardedExchange::gather:
      if (parts.task.gathered.count == 0) return {};
      return check_launch("send_columns", send_columns(parts.task, parts.stream));
    case ShardedExchange::ranks:
      if (!parts.task.has_ranks()) return {};
      return check_launch("count_in_front", count_in_front(parts.task, parts.stream));
  }
  if (Error error = parts.index()) return error;
  return check_launch("summarise_rows", summarise_rows(parts.task, parts.stream));
}

/// Filters the gathered rows of a group and draws their tokens, in the same way as a call of
/// `sample`.
Error ShardedCall::Parts::sample_gathered() const {
  if (Error error = check_launch("make_rows_whole", make_rows_whole(task, stream))) return error;
  const GatheredRows& group = task.gathered;
  const std::int64_t count = group.count;
  const RowsView whole{group.rows.data, DType::float32, count, task.vocab, group.rows.row_stride};
  RowsTask filter;
  filter.rows = whole;
  filter.from_probs = task.from_probs;
  filter.tie_rule = task.tie_rule;
  filter.filter_order = task.filter_order;
  filter.temperature = {group.temperature, count};
  filter.top_k = {group.top_k, count};
  filter.top_p = {group.top_p, count};
  filter.min_p = {group.min_p, count};
  filter.active = {group.active, count};
  filter.records = group.records;
  if (Error error = check_launch("filter_rows", filter_rows(filter, path, stream))) return error;
  OutputsTask draw;
  draw.filtered = {whole, task.from_probs, filter.temperature, {}, {}, group.records};
  draw.indices = {group.slots, task.outputs()};
  draw.outputs = task.outputs();
  draw.num_samples = task.num_samples;
  draw.seed = task.seed;
  draw.offset = task.offset;
  draw.words = task.words;
  draw.purpose = task.purpose;
  draw.tokens = task.num_samples > 0 ? group.tokens : nullptr;
  draw.support_size = group.support_size;
  if (draw.outputs == 0) return {};
  return check_launch("draw_outputs", draw_outputs(draw, stream));
}

Error sharded_receive(const ShardedCall& call, ShardedExchange exchange) {
  const ShardedCall::Parts& parts = *call.parts_;
  const ShardedTask& task = parts.task;
  if (task.rows() == 0) return {};
  if (exchange == ShardedExchange::ranks) {
    return task.has_ranks() ? check_launch("sum_ranks", sum_ranks(task, parts.stream)) : Error{};
  }
  if (call.bytes(exchange) == 0) return {};
  if (exchange == ShardedExchange::gather) {
    if (Error error = parts.sample_gathered()) return error;
  }
  if (Error error = check_launch("merge_rows", merge_rows(task, exchange, parts.stream))) {
    return error;
  }
  return parts.write_columns();
}

Error ShardedCall::Parts::write_columns() const {
  if (task.rows() == 0 || task.records == nullptr) return {};
  if (rows.mask.given()) {
    if (Error error = check_launch("write_rows", write_rows(rows, stream))) return error;
  }
  if (!task.all.given()) return {};
  return check_launch("report_columns", report_columns(task, stream));
}

/// Enqueues the first exchange, for ranks whose kernels run at the same time.
Error ShardedCall::Parts::exchange_summaries(bool with_tokens) const {
  if (task.rows() == 0) return begin_without_rows();
  if (Error error = index()) return error;
  ShardedTask exchanged = task;
  exchanged.exchanges_tokens = with_tokens;
  if (Error error =
          check_launch("exchange_summaries", cuda::exchange_summaries(exchanged, stream))) {
    return error;
  }
  return write_columns();
}

Error continue_sharded(const ShardedCall& call, std::int32_t undecided) {
  if (Error error = needs_peers(call.parts_->task.peers)) return error;
  const auto exchange = [&call](ShardedExchange number) {
    if (Error error = sharded_send(call, number)) return error;
    return sharded_receive(call, number);
  };
  if (Error error = exchange(ShardedExchange::tokens)) return error;
  if (Error error = exchange(ShardedExchange::sums)) return error;
  for (std::int32_t left = call.gathers(undecided); left > 0; --left) {
    if (Error error = exchange(ShardedExchange::gather)) return error;
  }
  return exchange(ShardedExchange::ranks);
}

Error sample_sharded(const ShardedCall& call, const ShardedPlan& plan) {
  const ShardedCall::Parts& parts = *call.parts_;
  if (Error error = needs_peers(parts.task.peers)) return error;
  if (Error error = parts.exchange_summaries(plan.tokens)) return error;
  if (Error error = sharded_send(call, ShardedExchange::ranks)) return error;
  return sharded_receive(call, ShardedExchange::ranks);
}

}  // namespace fairdraw::cuda
