#include "cuda/calls/sharded_rows.h"

#include <algorithm>

#include "common/arguments.h"
#include "common/processing_rules.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/processing/apply_edits.h"
#include "cuda/processing/edit_rows.h"
#include "sharded/call_layout.h"

namespace fairdraw::cuda {
namespace {

using sharded::ArraysLie;
using sharded::CallRules;
using sharded::Ids;
using sharded::Partition;

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

/// Returns the part of a shard's columns that consists of whole tiles.
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
  task.tie_rule = rows.tie_rule.scalar;
  task.filter_order = rows.filter_order.scalar;
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

/// Allocates the edits of processed rows, and the processed columns, which from now on replace the
/// caller's columns.
void place_processing(const ShardedRequest& request, ShardedTask& task, ProcessedColumns& processed,
                      BumpAllocator& memory) {
  const SampleRequest& rows = request.rows;
  task.is_processed = is_processed(rows.processing);
  if (!task.is_processed) return;
  task.processing = processing_of_columns(rows);
  if (decays(task.processing)) {
    float* const now = memory.allocate<float>(task.rows());
    processed.decay = {task.rows(), rows.active, task.processing, rows.top_p, now};
    task.top_p = {now, task.rows()};
  }
  if (task.columns.vocab == 0 || task.rows() == 0) return;
  EditTask& edits = processed.edits;
  edits.rows = rows.logits;
  edits.allowed = rows.allowed;
  edits.active = rows.active;
  edits.processing = task.processing;
  edits.first_id = task.parts[task.shard].begin;
  edits.whole_vocab = task.vocab;
  edits.edits = edit_planes(task.rows(), task.columns.vocab, memory);
  task.faults = edits.edits.faults;
  // The whole tiles begin at a multiple of 16 bytes, so that vector loads can read them.
  constexpr std::int64_t kVector = 4;
  const std::int64_t before = (kVector - task.parts[task.shard].head() % kVector) % kVector;
  const std::int64_t stride = (task.columns.vocab + kVector - 1) / kVector * kVector;
  auto* values = memory.allocate<float>(before + task.rows() * stride);
  processed.values = {values == nullptr ? nullptr : values + before, task.rows(), stride};
  task.columns = {processed.values.data, DType::float32, task.rows(), task.columns.vocab, stride};
  task.whole = whole_of(task.columns, task.parts[task.shard]);
  task.allowed = {};
}

/// Allocates the arrays for reports of the caller's logits, if rows are masked or processed.
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

/// Allocates the arrays of a group of gathered rows, for as many rows as fit into 4 MB, but at
/// least one.
void place_gathered(const sharded::SummaryLayout& layout, std::int64_t rows, std::int64_t outputs,
                    ShardedTask& task, BumpAllocator& memory) {
  constexpr std::int64_t kMaxValues = std::int64_t{1} << 20;
  GatheredRows& group = task.gathered;
  group = {};
  if (layout.row_columns == 0 || rows == 0) return;
  group.count = static_cast<int>(std::clamp<std::int64_t>(kMaxValues / task.vocab, 1, rows));
  group.room = static_cast<int>(layout.row_columns);
  const std::int64_t count = group.count;
  memory.allocate(group.numbers, count);
  memory.allocate(group.slots, outputs);
  // Each row begins at a multiple of 16 bytes, so that vector loads can read it.
  constexpr std::int64_t kVector = 4;
  const std::int64_t stride = (task.vocab + kVector - 1) / kVector * kVector;
  group.rows = {memory.allocate<float>(count * stride), count, stride};
  memory.allocate(group.active, count);
  memory.allocate(group.temperature, count);
  memory.allocate(group.top_k, count);
  memory.allocate(group.top_p, count);
  memory.allocate(group.min_p, count);
  memory.allocate(group.records, count);
  memory.allocate(group.tokens, outputs * task.num_samples);
  memory.allocate(group.support_size, outputs);
}

}  // namespace

LogitsProcessing processing_of_columns(const SampleRequest& rows) {
  LogitsProcessing processing = rows.processing;
  if (rows.logits.vocab == 0) {
    processing.prompt_mask = {};
    processing.output_counts = {};
  }
  return processing;
}

void place_sharded_rows(const ShardedRequest& request, const SampleResult& result,
                        ShardedTask& task, ProcessedColumns& processed, BumpAllocator& memory) {
  const std::int64_t rows = std::max<std::int64_t>(request.rows.logits.rows, 0);
  const std::int64_t outputs = request.rows.indices.given() ? request.rows.indices.size : rows;
  const CallRules rules = sharded::rules_of(request, result, ArraysLie::on_device);
  place_partition(rules.partition, task);
  task.shard = request.shard;
  task.cut_values = static_cast<int>(rules.layout.cut_values);
  task.candidates = static_cast<int>(rules.layout.candidates);
  task.candidate_bytes = static_cast<int>(rules.layout.candidate_bytes());
  task.attempts = static_cast<int>(rules.layout.attempts);
  task.raw_at = rules.layout.raw_summary ? static_cast<int>(rules.layout.raw_at()) : 0;
  place_rows(request.rows, task);
  task.from_probs = request.input == TileInput::probs;
  task.num_samples = result.tokens.given() ? request.rows.num_samples : 0;
  task.indices = request.rows.indices;
  task.words = request.words.data;
  place_results(result, task);
  place_processing(request, task, processed, memory);
  place_gathered(rules.layout, rows, outputs, task, memory);
  const auto place_block = [&task](ShardedExchange exchange, std::int64_t count, std::size_t each) {
    const auto number = static_cast<int>(exchange);
    task.each[number] = static_cast<std::int64_t>(each);
    task.bytes[number] =
        static_cast<std::int64_t>(sizeof(sharded::BlockHeader)) + count * task.each[number];
  };
  const auto samples = static_cast<std::size_t>(task.num_samples);
  place_block(ShardedExchange::summary, rows, rules.layout.bytes());
  place_block(ShardedExchange::tokens, outputs,
              sizeof(sharded::TokenAttempt) * samples * rules.layout.attempts);
  if (rules.layout.attempts > 1) {
    place_block(ShardedExchange::sums, outputs,
                sizeof(sharded::Sum128) * samples * sharded::kRecords);
  }
  if (task.gathered.count > 0) {
    place_block(
        ShardedExchange::gather, task.gathered.count,
        sharded::answer_bytes(sharded::GatherRow{rules.layout.row_columns, rules.layout.raw_bits}));
  }
  if (task.has_ranks()) {
    place_block(ShardedExchange::ranks, outputs, sizeof(std::int32_t) * samples);
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
  memory.allocate(task.drawn, outputs * task.num_samples);
  if (task.indices.given()) {
    memory.allocate(task.output_begins, rows + 1);
    memory.allocate(task.outputs_by_row, outputs);
  }
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

void place_sharded_blocks(ShardedTask& task, BumpAllocator& memory) {
  for (int exchange = 0; exchange < kExchanges; ++exchange) {
    memory.allocate(task.send[exchange], task.bytes[exchange]);
    memory.allocate(task.receive[exchange], task.shards * task.bytes[exchange]);
  }
}

Error decide_none(const ShardedTask& task, cudaStream_t stream) {
  return check_call("cudaMemsetAsync",
                    cudaMemsetAsync(task.undecided, 0, sizeof(*task.undecided), stream));
}

Error index_sharded_rows(const ShardedTask& task, const ProcessedColumns& processed,
                         const TileSpread& spread, cudaStream_t stream) {
  if (processed.decay.rows > 0) {
    if (Error error = check_launch("decay_top_p", decay_top_p(processed.decay, stream))) {
      return error;
    }
  }
  if (processed.edits.edits.given()) {
    if (Error error = check_launch("edit_rows", edit_rows(processed.edits, stream))) return error;
    if (Error error =
            check_launch("apply_edits", apply_edits(processed.edits, processed.values.data,
                                                    processed.values.row_stride, stream))) {
      return error;
    }
  }
  if (task.whole.vocab == 0) return decide_none(task, stream);
  return check_launch("index_shard", index_shard(task, spread, stream));
}

}  // namespace fairdraw::cuda
