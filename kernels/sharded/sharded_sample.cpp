// Implementation of a sharded call (fairdraw/sharded.h), which makes the blocks of all rows for
// each exchange and writes the results.
#include <memory>
#include <utility>
#include <vector>

#include "common/arguments.h"
#include "common/processing_rules.h"
#include "cpu/batch.h"
#include "cpu/outputs_by_row.h"
#include "fairdraw/sharded.h"
#include "sharded/call_blocks.h"
#include "sharded/call_layout.h"
#include "sharded/merged_row.h"
#include "sharded/row_exchange.h"
#include "sharded/row_results.h"
#include "sharded/shard_row.h"

namespace fairdraw {

using sharded::CallBlocks;
using sharded::CallRules;
using sharded::MergedRow;
using sharded::RowExchange;
using sharded::RowInCall;
using sharded::ShardRow;
using sharded::TokenWords;

class ShardedSample::Call {
 public:
  Error begin(const ShardedRequest& request, const SampleResult& result,
              const Execution& execution);
  Error receive(const std::byte* blocks);
  bool done() const { return done_; }
  const CallBlocks& blocks() const { return blocks_; }
  std::int64_t gathered_rows() const { return rows_.gathered(); }

 private:
  bool is_active(std::int64_t row) const {
    const View<const std::uint8_t>& active = request_.rows.active;
    return !active.given() || active.data[row] != 0;
  }
  std::vector<TokenWords> words_of_row(std::int64_t row) const;
  void write_results();

  ShardedRequest request_;
  SampleResult result_;
  Execution execution_;
  CallRules rules_;
  cpu::OutputsByRow outputs_;
  CallBlocks blocks_;
  RowExchange rows_;
  bool done_ = false;
};

Error ShardedSample::Call::begin(const ShardedRequest& request, const SampleResult& result,
                                 const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = sharded::check_sharded(request, result)) return error;
  if (Error error = sharded::check_row_filters(request.rows, /*arrays_are_readable=*/true)) {
    return error;
  }
  request_ = request;
  result_ = result;
  execution_ = execution;
  rules_ = sharded::rules_of(request, result);
  sharded::use(execution.target, rules_);
  outputs_ = cpu::OutputsByRow(request.rows);
  const SampleRequest& rows = request.rows;
  std::vector<RowInCall> in_call(static_cast<std::size_t>(rows.logits.rows));
  for (std::int64_t row = 0; row < rows.logits.rows; ++row) {
    in_call[static_cast<std::size_t>(row)] = {
        is_active(row),
        {rows.temperature.at(row), rows.top_k.at(row),
         top_p_now(rows.processing, row, rows.top_p.at(row)), rows.min_p.at(row)},
        words_of_row(row)};
  }
  rows_.begin(rows, rules_, request.shard, execution, std::move(in_call));
  blocks_.begin(rules_.partition.shards(), sharded::fingerprint_of(request, result));
  rows_.write(blocks_.start(rows_.bytes()));
  return {};
}

/// Returns the random words of a row, with one entry for each requested token.
std::vector<TokenWords> ShardedSample::Call::words_of_row(std::int64_t row) const {
  const SampleRequest& request = request_.rows;
  std::vector<TokenWords> words;
  if (!result_.tokens.given()) return words;
  for (std::int64_t i = 0; i < outputs_.count(row); ++i) {
    const std::int64_t output = outputs_.at(row, i);
    for (std::int64_t s = 0; s < request.num_samples; ++s) {
      const std::int64_t token = output * request.num_samples + s;
      if (request_.words.given()) {
        words.push_back({{}, request_.words.data[token]});
        continue;
      }
      const auto index = static_cast<std::uint32_t>(request.seed.is_array() ? s : token);
      words.push_back(
          {{request.seed.at(output), request.offset.at(output), request.purpose, index}});
    }
  }
  return words;
}

Error ShardedSample::Call::receive(const std::byte* blocks) {
  if (Error error = blocks_.take(blocks)) return error;
  rows_.take(blocks_.parts(blocks));
  if (rows_.bytes() > 0) {
    rows_.write(blocks_.start(rows_.bytes()));
    return {};
  }
  done_ = true;
  write_results();
  return {};
}

void ShardedSample::Call::write_results() {
  sharded::write_failures(request_.rows, result_);
  cpu::for_each_row(rows_.size(), execution_, [&](std::int64_t r, cpu::Worker& worker) {
    const sharded::RowResults results(request_.rows, result_, rules_, outputs_, r);
    if (!is_active(r)) {
      results.write_failure(RowStatus::inactive);
      return;
    }
    const MergedRow& row = rows_.merged(r);
    if (row.status() != RowStatus::ok) {
      results.write_failure(row.status());
      results.write_failed_columns();
      return;
    }
    results.write(row, worker);
    if (!results.wants_columns() || request_.rows.logits.vocab == 0) return;
    ShardRow shard = rows_.shard_row(r, worker);
    if (shard.read() == RowStatus::ok) results.write_columns(row, shard, worker);
  });
}

// --- The handle ----------------------------------------------------------------------------------

ShardedSample::ShardedSample() = default;
ShardedSample::~ShardedSample() = default;
ShardedSample::ShardedSample(ShardedSample&&) noexcept = default;
ShardedSample& ShardedSample::operator=(ShardedSample&&) noexcept = default;

Error ShardedSample::begin(const ShardedRequest& request, const SampleResult& result,
                           const Execution& execution) {
  call_ = std::make_unique<Call>();
  Error error = call_->begin(request, result, execution);
  if (error) call_.reset();
  return error;
}

std::int64_t ShardedSample::block_bytes() const {
  if (call_ == nullptr || call_->done()) return 0;
  return static_cast<std::int64_t>(call_->blocks().block().size());
}

const std::byte* ShardedSample::block() const {
  return call_ == nullptr ? nullptr : call_->blocks().block().data();
}

Error ShardedSample::receive(const void* blocks) {
  if (call_ == nullptr || call_->done()) {
    return {ErrorCode::invalid_argument, "receive: there is no call in progress"};
  }
  if (blocks == nullptr) return out_of_range("blocks", "null", "the blocks of all shards");
  Error error = call_->receive(static_cast<const std::byte*>(blocks));
  if (error) call_.reset();
  return error;
}

std::int32_t ShardedSample::exchanges() const {
  return call_ == nullptr ? 0 : call_->blocks().exchanges();
}

std::int64_t ShardedSample::gathered_rows() const {
  return call_ == nullptr ? 0 : call_->gathered_rows();
}

std::int64_t sharded_block_bytes(const ShardedRequest& request, const SampleResult& result) {
  if (sharded::check_sharded(request, result)) return 0;
  return static_cast<std::int64_t>(sizeof(sharded::BlockHeader) +
                                   static_cast<std::size_t>(request.rows.logits.rows) *
                                       sharded::rules_of(request, result).layout.bytes());
}

}  // namespace fairdraw
