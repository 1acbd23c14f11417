// A sharded call (fairdraw/sharded.h): blocks of all rows, exchange by exchange, and the results.
#include <string>
#include <utility>
#include <vector>

#include "common/arguments.h"
#include "common/log_mass.h"
#include "common/philox.h"
#include "cpu/batch.h"
#include "cpu/outputs_by_row.h"
#include "fairdraw/sharded.h"
#include "sharded/call_layout.h"
#include "sharded/merged_row.h"
#include "sharded/row_results.h"
#include "sharded/shard_row.h"

namespace fairdraw {

using sharded::BlockHeader;
using sharded::CallRules;
using sharded::MergedRow;
using sharded::Question;
using sharded::ShardBuffers;
using sharded::ShardRow;

class ShardedSample::Call {
 public:
  Error begin(const ShardedRequest& request, const SampleResult& result,
              const Execution& execution);
  Error receive(const std::byte* blocks);
  bool done() const { return done_; }
  const std::vector<std::byte>& block() const { return block_; }
  std::int32_t exchanges() const { return static_cast<std::int32_t>(exchange_); }

 private:
  struct Row {
    MergedRow merged;
    std::size_t at = 0;     // of its part in the block
    std::size_t bytes = 0;  // 0: it asks nothing
  };

  std::int64_t rows() const { return request_.rows.logits.rows; }
  bool is_active(std::int64_t row) const {
    const View<const std::uint8_t>& active = request_.rows.active;
    return !active.given() || active.data[row] != 0;
  }
  template <class Work>
  void for_each_row(const Work& work);
  ShardRow shard_row(std::int64_t row, cpu::Worker& worker);
  Error check_blocks(const std::byte* blocks) const;
  void take_summaries(const std::byte* blocks);
  void take_answers(const std::byte* blocks);
  void write_summaries();
  void write_answers();
  void write_results();
  void start_block(std::size_t bytes);
  std::vector<std::uint64_t> words_of_row(std::int64_t row) const;
  std::vector<const std::byte*> parts(const std::byte* blocks, std::size_t at) const;

  ShardedRequest request_;
  SampleResult result_;
  Execution execution_;
  CallRules rules_;
  cpu::OutputsByRow outputs_;
  std::uint64_t fingerprint_ = 0;
  std::uint32_t exchange_ = 0;
  bool done_ = false;
  std::vector<std::byte> block_;
  std::vector<Row> merged_;
};

Error ShardedSample::Call::begin(const ShardedRequest& request, const SampleResult& result,
                                 const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = sharded::check_sharded(request, result)) return error;
  request_ = request;
  result_ = result;
  execution_ = execution;
  rules_ = sharded::rules_of(request, result);
  rules_.target = execution.target == CpuTarget::best ? best_target() : execution.target;
  rules_.tile_passes = &cpu::tile_passes_for(rules_.target);
  outputs_ = cpu::OutputsByRow(request.rows);
  fingerprint_ = sharded::fingerprint_of(request, result);
  merged_.resize(static_cast<std::size_t>(rows()));
  write_summaries();
  return {};
}

/// Calls work(row, worker) for rows that are not padding.
template <class Work>
void ShardedSample::Call::for_each_row(const Work& work) {
  cpu::for_each_row(rows(), execution_, [&](std::int64_t row, cpu::Worker& worker) {
    if (is_active(row)) work(row, worker);
  });
}

ShardRow ShardedSample::Call::shard_row(std::int64_t row, cpu::Worker& worker) {
  thread_local ShardBuffers buffers;
  return {request_.rows, rules_, request_.shard, row, worker, buffers};
}

void ShardedSample::Call::start_block(std::size_t bytes) {
  block_.assign(sizeof(BlockHeader) + bytes, std::byte{0});
  sharded::write_at(block_.data(), BlockHeader{sharded::kMagic, exchange_, fingerprint_});
}

void ShardedSample::Call::write_summaries() {
  const std::size_t bytes = rules_.layout.bytes();
  start_block(static_cast<std::size_t>(rows()) * bytes);
  for_each_row([&](std::int64_t row, cpu::Worker& worker) {
    std::byte* part = block_.data() + sizeof(BlockHeader) + static_cast<std::size_t>(row) * bytes;
    shard_row(row, worker).write_summary(part);
  });
}

Error ShardedSample::Call::check_blocks(const std::byte* blocks) const {
  for (int shard = 0; shard < rules_.partition.shards(); ++shard) {
    const auto header =
        sharded::read_at<BlockHeader>(blocks + static_cast<std::size_t>(shard) * block_.size());
    const std::string name = "block of shard " + std::to_string(shard);
    if (header.magic != sharded::kMagic) {
      return out_of_range(name, "something else", "a block of ShardedSample");
    }
    if (header.exchange != exchange_) {
      return out_of_range(name, "of exchange " + std::to_string(header.exchange),
                          "of exchange " + std::to_string(exchange_));
    }
    if (header.fingerprint != fingerprint_) {
      return out_of_range(name, "of another call",
                          "the same boundaries, parameters, seeds, offsets, lists and results as "
                          "this shard's");
    }
  }
  return {};
}

std::vector<const std::byte*> ShardedSample::Call::parts(const std::byte* blocks,
                                                         std::size_t at) const {
  std::vector<const std::byte*> found;
  for (int shard = 0; shard < rules_.partition.shards(); ++shard) {
    found.push_back(blocks + static_cast<std::size_t>(shard) * block_.size() + at);
  }
  return found;
}

std::vector<std::uint64_t> ShardedSample::Call::words_of_row(std::int64_t row) const {
  const SampleRequest& request = request_.rows;
  std::vector<std::uint64_t> words;
  for (std::int64_t i = 0; i < outputs_.count(row); ++i) {
    const std::int64_t output = outputs_.at(row, i);
    const std::uint64_t seed = request.seed.at(output);
    const std::uint64_t offset = request.offset.at(output);
    for (std::int64_t s = 0; s < request.num_samples; ++s) {
      const auto index = static_cast<std::uint32_t>(
          request.seed.is_array() ? s : output * request.num_samples + s);
      words.push_back(random_word(seed, offset, request.purpose, index));
    }
  }
  return words;
}

void ShardedSample::Call::take_summaries(const std::byte* blocks) {
  const std::size_t bytes = rules_.layout.bytes();
  const SampleRequest& request = request_.rows;
  for_each_row([&](std::int64_t row, cpu::Worker&) {
    const RowParameters parameters{request.temperature.at(row), request.top_k.at(row),
                                   request.top_p.at(row), request.min_p.at(row)};
    merged_[static_cast<std::size_t>(row)].merged.merge(
        rules_, parameters,
        parts(blocks, sizeof(BlockHeader) + static_cast<std::size_t>(row) * bytes),
        words_of_row(row));
  });
}

void ShardedSample::Call::take_answers(const std::byte* blocks) {
  for_each_row([&](std::int64_t r, cpu::Worker&) {
    Row& row = merged_[static_cast<std::size_t>(r)];
    if (row.bytes > 0) row.merged.take(parts(blocks, row.at), row.bytes);
  });
}

/// What rows ask, and this shard's answers. No row asks anything: the call is done.
void ShardedSample::Call::write_answers() {
  std::vector<const Question*> questions(merged_.size(), nullptr);
  for_each_row([&](std::int64_t r, cpu::Worker&) {
    const auto row = static_cast<std::size_t>(r);
    questions[row] = &merged_[row].merged.advance();
  });
  std::size_t bytes = 0;
  for (std::size_t row = 0; row < merged_.size(); ++row) {
    merged_[row].at = sizeof(BlockHeader) + bytes;
    merged_[row].bytes = questions[row] == nullptr ? 0 : sharded::answer_bytes(*questions[row]);
    bytes += merged_[row].bytes;
  }
  if (bytes == 0) {
    done_ = true;
    write_results();
    return;
  }
  start_block(bytes);
  for_each_row([&](std::int64_t r, cpu::Worker& worker) {
    const auto row = static_cast<std::size_t>(r);
    if (merged_[row].bytes == 0) return;
    shard_row(r, worker).answer(merged_[row].merged, *questions[row],
                                block_.data() + merged_[row].at);
  });
}

Error ShardedSample::Call::receive(const std::byte* blocks) {
  if (Error error = check_blocks(blocks)) return error;
  exchange_ == 0 ? take_summaries(blocks) : take_answers(blocks);
  ++exchange_;
  write_answers();
  return {};
}

void ShardedSample::Call::write_results() {
  sharded::write_failures(request_.rows, result_);
  cpu::for_each_row(rows(), execution_, [&](std::int64_t r, cpu::Worker& worker) {
    const sharded::RowResults results(request_.rows, result_, rules_, outputs_, r);
    if (!is_active(r)) {
      results.write_failure(RowStatus::inactive);
      return;
    }
    const MergedRow& row = merged_[static_cast<std::size_t>(r)].merged;
    if (row.status() != RowStatus::ok) {
      results.write_failure(row.status());
      results.write_failed_columns();
      return;
    }
    results.write(row, worker);
    if (!results.wants_columns() || request_.rows.logits.vocab == 0) return;
    ShardRow shard = shard_row(r, worker);
    if (shard.read() == RowStatus::ok) results.write_columns(row, shard, worker);
  });
}

// --- The handle
// -----------------------------------------------------------------------------------

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
  return static_cast<std::int64_t>(call_->block().size());
}

const std::byte* ShardedSample::block() const {
  return call_ == nullptr ? nullptr : call_->block().data();
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

std::int32_t ShardedSample::exchanges() const { return call_ == nullptr ? 0 : call_->exchanges(); }

std::int64_t sharded_block_bytes(const ShardedRequest& request, const SampleResult& result) {
  if (sharded::check_sharded(request, result)) return 0;
  return static_cast<std::int64_t>(sizeof(BlockHeader) +
                                   static_cast<std::size_t>(request.rows.logits.rows) *
                                       sharded::rules_of(request, result).layout.bytes());
}

}  // namespace fairdraw
