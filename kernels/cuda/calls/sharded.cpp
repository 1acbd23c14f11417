// Sharded sampling on the GPU (fairdraw/cuda_sharded.h): checks, the layout of a call in its
// workspace, and which kernels an exchange is. The kernels are in sharded/.
#include <algorithm>
#include <string>
#include <utility>

#include "common/arguments.h"
#include "common/bump_allocator.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/write_rows.h"
#include "cuda/processing/apply_edits.h"
#include "cuda/processing/edit_rows.h"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/tile_spread.h"
#include "fairdraw/cuda_sharded.h"
#include "sharded/call_layout.h"

namespace fairdraw::cuda {

namespace {

/// What a call is to its kernels.
struct ShardedWork {
  ShardedTask task{};
  RowsTask edits;       ///< of processed rows
  FloatRows processed;  ///< they are written to
};

bool has_ranks(const ShardedTask& task) { return task.ranks != nullptr && task.num_samples > 0; }

}  // namespace

struct ShardedCall::Parts : ShardedWork {
  TileSpread spread;
  RowsOutputTask rows;  ///< the mask, where one is wanted
  cudaStream_t stream = nullptr;

  Error process() const;
  Error index() const;
  Error receive(ShardedExchange exchange, bool with_tokens) const;
  Error exchange_summaries(bool with_tokens) const;
  Error write_columns() const;
};

namespace {

using sharded::ArraysLie;
using sharded::CallRules;
using sharded::Ids;
using sharded::Partition;

Error not_there(const std::string& field) {
  return {ErrorCode::unsupported,
          field + " is given; allowed: none, in a sharded call on GPUs (the CPU has it)"};
}

/// What the CPU has and this does not.
Error check_supported(const ShardedRequest& request, const SampleResult& result) {
  const SampleRequest& rows = request.rows;
  const std::int64_t shards = request.boundaries.size - 1;
  if (shards > kMaxDeviceShards) {
    return {ErrorCode::unsupported, "shards is " + std::to_string(shards) + "; allowed: 1 to " +
                                        std::to_string(kMaxDeviceShards) + " on GPUs"};
  }
  if (request.input != TileInput::logits) return not_there("input of probabilities");
  if (request.top_k_1_keeps_ties) return not_there("top_k_1_keeps_ties");
  if (rows.indices.given()) return not_there("indices");
  if (result.probs.given()) return not_there("probs");
  return {};
}

/// Without arrays of columns where a shard has none: they may be anywhere.
LogitsProcessing processing_of(const SampleRequest& rows) {
  LogitsProcessing processing = rows.processing;
  if (rows.logits.vocab == 0) {
    processing.prompt_mask = {};
    processing.output_counts = {};
  }
  return processing;
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
  pointers.check(processing_of(rows));
  pointers.check("words", request.words);
  pointers.check("active", rows.active);
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

void place_partition(const Partition& partition, ShardedTask& task) {
  task.shards = partition.shards();
  task.vocab = static_cast<int>(partition.vocab());
  const auto add_cut = [&task](int shard, const Ids& ids, std::int64_t in_summary) {
    if (ids.empty()) return;
    task.pieces[task.piece_count++] = {task.cut_total, static_cast<int>(ids.begin), shard,
                                       static_cast<int>(in_summary)};
    const CutSpan* last = task.cut_tiles == 0 ? nullptr : &task.cut[task.cut_tiles - 1];
    if (last == nullptr || ids.begin / kTileSize != last->begin / kTileSize) {
      task.cut[task.cut_tiles++] = {static_cast<int>(ids.begin), 0, task.cut_total};
    }
    task.cut[task.cut_tiles - 1].size += static_cast<int>(ids.size());
    task.cut_total += static_cast<int>(ids.size());
  };
  for (int shard = 0; shard < task.shards; ++shard) {
    const Ids all = partition.columns(shard);
    const Ids whole = partition.whole_tiles(shard);
    task.parts[shard] = {static_cast<int>(all.begin), static_cast<int>(whole.begin),
                         static_cast<int>(whole.end), static_cast<int>(all.end)};
    add_cut(shard, partition.head(shard), 0);
    add_cut(shard, partition.tail(shard), partition.head(shard).size());
  }
  RowPart* part = task.row_parts;
  for (int shard = 0; shard < task.shards; ++shard) {
    if (task.parts[shard].whole() > 0) *part++ = {task.parts[shard].whole_begin, shard, 0};
  }
  for (int cut = 0; cut < task.cut_tiles; ++cut) *part++ = {task.cut[cut].begin, -1, cut};
  std::sort(task.row_parts, part,
            [](const RowPart& a, const RowPart& b) { return a.begin < b.begin; });
  task.row_part_count = static_cast<int>(part - task.row_parts);
}

/// The whole tiles of a shard's columns.
RowsView whole_of(const RowsView& columns, const ShardPart& mine) {
  RowsView whole = columns;
  whole.data =
      static_cast<const std::uint8_t*>(columns.data) + mine.head() * bytes_of(columns.dtype);
  whole.vocab = mine.whole();
  return whole;
}

void place_rows(const SampleRequest& rows, ShardedTask& task) {
  task.columns = rows.logits;
  task.whole = whole_of(rows.logits, task.parts[task.shard]);
  task.active = rows.active;
  task.temperature = rows.temperature;
  task.top_k = rows.top_k;
  task.top_p = rows.top_p;
  task.min_p = rows.min_p;
  task.seed = rows.seed;
  task.offset = rows.offset;
  task.purpose = rows.purpose;
  task.tie_rule = rows.tie_rule;
  task.filter_order = rows.filter_order;
  if (rows.logits.vocab > 0) task.allowed = rows.allowed;
}

void place_results(const SampleResult& result, ShardedTask& task) {
  task.tokens = result.tokens.data;
  task.ranks = result.logprobs.ranks.data;
  task.rank_rule = result.logprobs.rank_rule;
  if (task.columns.vocab > 0) task.all = result.logprobs.all;
  task.statuses = result.statuses.data;
  task.support_size = result.support_size.data;
  task.logprob = result.logprob.data;
  task.logprob_filtered = result.logprob_filtered.data;
  const LogprobsResult& reports = result.logprobs;
  task.mode = reports.mode;
  task.top_n = reports.given() ? reports.top_n : 0;
  task.values = reports.values.data;
  task.top_ids = reports.top_ids.data;
  task.top_values = reports.top_values.data;
}

/// The edits of processed rows, which take the place of the caller's from here on.
void place_processing(const ShardedRequest& request, ShardedWork& work, BumpAllocator& memory) {
  ShardedTask& task = work.task;
  const SampleRequest& rows = request.rows;
  task.is_processed = is_processed(rows.processing);
  if (!task.is_processed) return;
  task.processing = processing_of(rows);
  if (task.columns.vocab == 0 || task.rows() == 0) return;
  RowsTask& edits = work.edits;
  edits.rows = rows.logits;
  edits.allowed = rows.allowed;
  edits.active = rows.active;
  edits.processing = task.processing;
  edits.first_id = task.parts[task.shard].begin;
  edits.whole_vocab = task.vocab;
  edits.edits = edit_planes(task.rows(), task.columns.vocab, memory);
  task.faults = edits.edits.faults;
  // Whole tiles begin at a multiple of 16 bytes, where vectors can be read.
  constexpr std::int64_t kVector = 4;
  const std::int64_t before = (kVector - task.parts[task.shard].head() % kVector) % kVector;
  const std::int64_t stride = (task.columns.vocab + kVector - 1) / kVector * kVector;
  auto* values = memory.allocate<float>(before + task.rows() * stride);
  work.processed = {values == nullptr ? nullptr : values + before, task.rows(), stride};
  task.columns = {work.processed.data, DType::float32, task.rows(), task.columns.vocab, stride};
  task.whole = whole_of(task.columns, task.parts[task.shard]);
  task.allowed = {};
}

/// What reports of the caller's logits need, where rows are masked or processed.
void place_raw(const SampleRequest& rows, const sharded::SummaryLayout& layout, ShardedTask& task,
               BumpAllocator& memory) {
  RawRows& raw = task.raw;
  raw.given = layout.raw_bits;
  if (!raw.given) return;
  raw.columns = rows.logits;
  raw.whole = whole_of(rows.logits, task.parts[task.shard]);
  raw.cut_at = static_cast<int>(layout.raw_cut_at());
  raw.candidates_at = static_cast<int>(layout.raw_candidates_at());
  raw.candidates = static_cast<int>(layout.raw_candidates);
  const std::int64_t tiles = task.tiles();
  raw.keys = {memory.allocate<std::int32_t>(task.rows() * tiles), task.rows(), tiles};
  raw.counts = {memory.allocate<std::uint16_t>(task.rows() * tiles), task.rows(), tiles};
}

/// The call's arrays in a workspace, or what they take.
void place_memory(const ShardedRequest& request, const SampleResult& result, ShardedWork& work,
                  BumpAllocator& memory) {
  ShardedTask& task = work.task;
  const std::int64_t rows = std::max<std::int64_t>(request.rows.logits.rows, 0);
  const CallRules rules = sharded::rules_of(request, result, ArraysLie::on_device);
  place_partition(rules.partition, task);
  task.shard = request.shard;
  task.cut_values = static_cast<int>(rules.layout.cut_values);
  task.candidates = static_cast<int>(rules.layout.candidates);
  task.candidate_bytes = static_cast<int>(rules.layout.candidate_bytes());
  task.raw_at = rules.layout.raw_summary ? static_cast<int>(rules.layout.raw_at()) : 0;
  place_rows(request.rows, task);
  task.num_samples = result.tokens.given() ? request.rows.num_samples : 0;
  task.words = request.words.data;
  place_results(result, task);
  place_processing(request, work, memory);
  task.each[0] = static_cast<std::int64_t>(rules.layout.bytes());
  task.each[1] = sizeof(sharded::ThresholdAnswer);
  task.each[2] = static_cast<std::int64_t>(sizeof(sharded::DrawnToken)) * task.num_samples;
  task.each[3] = static_cast<std::int64_t>(sizeof(std::int32_t)) * task.num_samples;
  for (int exchange = 0; exchange < kExchanges; ++exchange) {
    const bool is_used = exchange != static_cast<int>(ShardedExchange::ranks) || has_ranks(task);
    if (is_used) {
      task.bytes[exchange] =
          static_cast<std::int64_t>(sizeof(sharded::BlockHeader)) + rows * task.each[exchange];
    }
    memory.allocate(task.send[exchange], task.bytes[exchange]);
    memory.allocate(task.receive[exchange], task.shards * task.bytes[exchange]);
  }
  const std::int64_t tiles = task.tiles();
  task.keys = {memory.allocate<std::int32_t>(rows * tiles), rows, tiles};
  task.sums = {memory.allocate<std::uint64_t>(rows * tiles), rows, tiles};
  task.counts = {memory.allocate<std::uint16_t>(rows * tiles), rows, tiles};
  task.groups = nullptr;
  if (task.candidates > 0) memory.allocate(task.groups, rows * group_bytes(tiles));
  place_raw(request.rows, rules.layout, task, memory);
  task.raw_sums = nullptr;
  if (task.raw_at > 0) memory.allocate(task.raw_sums, rows * tiles);
  memory.allocate(task.states, rows);
  memory.allocate(task.drawn, rows * task.num_samples);
  memory.allocate(task.undecided, 1);
  task.records = nullptr;
  const bool has_columns = result.mask.given() || result.logprobs.all.given();
  if (has_columns && request.rows.logits.vocab > 0) memory.allocate(task.records, rows);
  const ShardPart& mine = task.parts[task.shard];
  task.whole_allowed = task.allowed;
  if (!task.allowed.given()) return;
  if (mine.head() % 32 == 0) {
    task.whole_allowed.data += mine.head() / 32;
  } else {
    const std::int64_t words = words_of(mine.whole());
    task.shifted = {memory.allocate<std::uint32_t>(rows * words), rows, words};
    task.whole_allowed = {task.shifted.data, rows, words};
  }
}

Error check_call_of_shard(const ShardedRequest& request, const SampleResult& result) {
  if (Error error = sharded::check_sharded(request, result)) return error;
  return check_batch(request.rows.logits, "logits");
}

constexpr std::int64_t kMostPeerRows = 0x7fffffff;

/// Where blocks of a call lie in a memory of peers; the bytes that it takes.
std::int64_t place_peers(std::int64_t most_rows, ShardedTask& task) {
  constexpr std::int64_t kAlignment = 16, kHalves = 2, kKindsOfFlags = 2;
  const auto aligned = [](std::int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  PeerBlocks& peers = task.peers;
  peers.most_rows = most_rows;
  peers.flags_end = static_cast<std::int64_t>(sizeof(PeerCounts)) +
                    aligned(kKindsOfFlags * task.shards * most_rows *
                            static_cast<std::int64_t>(sizeof(std::uint64_t)));
  std::int64_t at = 0;
  for (int exchange = 0; exchange < kExchanges; ++exchange) {
    const bool is_threshold = exchange == static_cast<int>(ShardedExchange::threshold);
    peers.at[exchange] = at;
    peers.each[exchange] = aligned(task.bytes[exchange]);
    const std::int64_t copies = is_threshold ? kThresholdCopies : 1;
    at += copies * task.shards * peers.each[exchange];
  }
  return peers.flags_end + kHalves * at;
}

Error check_most_rows(std::int64_t most_rows, const ShardedTask& task) {
  if (most_rows >= task.rows() && most_rows <= kMostPeerRows) return {};
  return {ErrorCode::invalid_argument, "peers.most_rows is " + std::to_string(most_rows) +
                                           "; allowed: " + std::to_string(task.rows()) +
                                           ", the call's rows, to " +
                                           std::to_string(kMostPeerRows)};
}

Error needs_peers(const ShardedTask& task) {
  if (task.peers.given()) return {};
  return {ErrorCode::invalid_argument, "peers is not set; allowed: a call after use_peers()"};
}

Error check_peers(const ShardedPeers& peers, std::int64_t needed, const ShardedTask& task) {
  if (peers.bytes < needed) {
    return {ErrorCode::invalid_argument, "peers.bytes is " + std::to_string(peers.bytes) +
                                             "; allowed: >= " + std::to_string(needed)};
  }
  constexpr std::uintptr_t kAlignment = 16;
  for (int shard = 0; shard < task.shards; ++shard) {
    const std::byte* memory = peers.memory[shard];
    if (memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % kAlignment == 0) continue;
    return {ErrorCode::invalid_argument,
            "peers.memory[" + std::to_string(shard) + "] is " +
                (memory == nullptr ? "null" : "not at a multiple of 16 bytes") +
                "; allowed: memory of that shard's rank, as this rank addresses it"};
  }
  return {};
}

}  // namespace

std::int64_t workspace_bytes(const ShardedRequest& request, const SampleResult& result) noexcept {
  if (check_call_of_shard(request, result) || check_supported(request, result)) return 0;
  BumpAllocator memory(nullptr);
  ShardedWork work;
  place_memory(request, result, work, memory);
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
  place_memory(request, result, *parts, memory);
  task.fingerprint = sharded::fingerprint_of(request, result, ArraysLie::on_device);
  parts->stream = stream_of(execution);
  if (task.rows() > 0 && task.whole.vocab > 0) {
    if (Error error = check_call("best_spread", best_spread(task.whole, path, parts->spread))) {
      return error;
    }
  }
  if (task.records != nullptr && result.mask.given()) {
    parts->rows.filtered = {task.columns, false, task.temperature, task.allowed, {}, task.records};
    parts->rows.mask = result.mask;
  }
  call.parts_ = std::move(parts);
  return {};
}

std::int64_t peer_bytes(const ShardedCall& call, std::int64_t most_rows) {
  ShardedTask task = call.parts_->task;
  return check_most_rows(most_rows, task) ? 0 : place_peers(most_rows, task);
}

Error use_peers(ShardedCall& call, const ShardedPeers& peers) {
  ShardedTask task = call.parts_->task;
  if (Error error = check_most_rows(peers.most_rows, task)) return error;
  const std::int64_t needed = place_peers(peers.most_rows, task);
  if (Error error = check_peers(peers, needed, task)) return error;
  // By the memory and not by the call, so that calls of other shapes have the same halves.
  task.peers.half = (peers.bytes - task.peers.flags_end) / 2 / 16 * 16;
  std::copy(peers.memory, peers.memory + task.shards, task.peers.memory);
  call.parts_->task = task;
  return {};
}

Error ShardedCall::Parts::process() const {
  if (!edits.edits.given()) return {};
  if (Error error = check_launch("edit_rows", edit_rows(edits, stream))) return error;
  return check_launch("apply_edits",
                      apply_edits(edits, processed.data, processed.row_stride, stream));
}

/// The index, with which a call begins.
Error ShardedCall::Parts::index() const {
  if (Error error = process()) return error;
  if (task.whole.vocab == 0) {
    return check_call("cudaMemsetAsync",
                      cudaMemsetAsync(task.undecided, 0, sizeof(*task.undecided), stream));
  }
  if (Error error = check_launch("index_shard", index_shard(task, spread, stream))) return error;
  if (task.raw_at == 0) return {};
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
  if (parts.task.rows() == 0) return {};
  if (exchange == ShardedExchange::ranks) {
    if (!has_ranks(parts.task)) return {};
    return check_launch("count_in_front", count_in_front(parts.task, parts.stream));
  }
  if (exchange != ShardedExchange::summary) {
    return check_launch("answer_rows", answer_rows(parts.task, exchange, parts.stream));
  }
  if (Error error = parts.index()) return error;
  return check_launch("summarise_rows", summarise_rows(parts.task, parts.stream));
}

/// with_tokens: a row that asks for tokens exchanges them at once, through peers.
Error ShardedCall::Parts::receive(ShardedExchange exchange, bool with_tokens) const {
  if (task.rows() == 0) return {};
  if (exchange == ShardedExchange::ranks) {
    return has_ranks(task) ? check_launch("sum_ranks", sum_ranks(task, stream)) : Error{};
  }
  ShardedTask received = task;
  received.exchanges_tokens = with_tokens;
  if (Error error = check_launch("merge_rows", merge_rows(received, exchange, stream))) {
    return error;
  }
  return write_columns();
}
Error ShardedCall::Parts::write_columns() const {
  if (task.rows() == 0 || task.records == nullptr) return {};
  if (rows.mask.given()) {
    if (Error error = check_launch("write_rows", write_rows(rows, stream))) return error;
  }
  if (!task.all.given()) return {};
  return check_launch("report_columns", report_columns(task, stream));
}

/// The first exchange, of ranks whose kernels run at the same time.
Error ShardedCall::Parts::exchange_summaries(bool with_tokens) const {
  if (task.rows() == 0) return {};
  if (Error error = index()) return error;
  ShardedTask exchanged = task;
  exchanged.exchanges_tokens = with_tokens;
  if (Error error =
          check_launch("exchange_summaries", cuda::exchange_summaries(exchanged, stream))) {
    return error;
  }
  return write_columns();
}

Error sharded_receive(const ShardedCall& call, ShardedExchange exchange) {
  return call.parts_->receive(exchange, /*with_tokens=*/false);
}

Error continue_sharded(const ShardedCall& call, const ShardedPlan& plan) {
  if (Error error = needs_peers(call.parts_->task)) return error;
  const auto exchange = [&call](ShardedExchange number) {
    if (Error error = sharded_send(call, number)) return error;
    return sharded_receive(call, number);
  };
  for (int round = 0; round < plan.rounds; ++round) {
    if (Error error = exchange(ShardedExchange::threshold)) return error;
  }
  if (plan.tokens) {
    if (Error error = exchange(ShardedExchange::tokens)) return error;
  }
  return exchange(ShardedExchange::ranks);
}

Error sample_sharded(const ShardedCall& call, const ShardedPlan& plan) {
  const ShardedCall::Parts& parts = *call.parts_;
  if (Error error = needs_peers(parts.task)) return error;
  if (Error error = parts.exchange_summaries(plan.tokens)) return error;
  for (int round = 0; round < plan.rounds; ++round) {
    if (Error error = sharded_send(call, ShardedExchange::threshold)) return error;
    if (Error error = parts.receive(ShardedExchange::threshold, plan.tokens)) return error;
  }
  if (Error error = sharded_send(call, ShardedExchange::ranks)) return error;
  return sharded_receive(call, ShardedExchange::ranks);
}

}  // namespace fairdraw::cuda
