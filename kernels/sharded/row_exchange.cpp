#include "sharded/row_exchange.h"

#include <utility>
#include <variant>

namespace fairdraw::sharded {
namespace {

/// Returns pointers to the byte with number `offset` in the part of each shard.
std::vector<const std::byte*> parts_at(const std::vector<const std::byte*>& parts,
                                       std::size_t offset) {
  std::vector<const std::byte*> found;
  found.reserve(parts.size());
  for (const std::byte* part : parts) found.push_back(part + offset);
  return found;
}

}  // namespace

void RowExchange::begin(const SampleRequest& rows, const CallRules& rules, int shard,
                        const Execution& execution, std::vector<RowInCall> in_call) {
  request_ = rows;
  rules_ = &rules;
  shard_ = shard;
  execution_ = execution;
  const std::size_t bytes = rules.layout.bytes();
  rows_.resize(in_call.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].in_call = std::move(in_call[i]);
    rows_[i].at = i * bytes;
    rows_[i].bytes = bytes;
  }
  bytes_ = rows_.size() * bytes;
}

/// Calls work(row, worker) for all rows that are not padding.
template <class Work>
void RowExchange::for_each_active(const Work& work) {
  cpu::for_each_row(size(), execution_, [&](std::int64_t i, cpu::Worker& worker) {
    if (rows_[at(i)].in_call.active) work(i, worker);
  });
}

ShardRow RowExchange::shard_row(std::int64_t i, cpu::Worker& worker) const {
  thread_local ShardBuffers buffers;
  const RowInCall& row = rows_[at(i)].in_call;
  return {request_, *rules_, shard_, i, row.parameters, worker, buffers};
}

void RowExchange::write(std::byte* part) {
  for_each_active([&](std::int64_t i, cpu::Worker& worker) {
    const Row& row = rows_[at(i)];
    if (row.bytes == 0) return;
    ShardRow shard = shard_row(i, worker);
    has_summaries_ ? shard.answer(row.merged, part + row.at) : shard.write_summary(part + row.at);
  });
}

void RowExchange::take(const std::vector<const std::byte*>& parts) {
  for_each_active([&](std::int64_t i, cpu::Worker&) {
    Row& row = rows_[at(i)];
    if (row.bytes == 0) return;
    const std::vector<const std::byte*> of_row = parts_at(parts, row.at);
    has_summaries_
        ? row.merged.take(of_row)
        : row.merged.merge(*rules_, row.in_call.parameters, of_row, std::move(row.in_call.words));
  });
  has_summaries_ = true;
  bytes_ = 0;
  for (Row& row : rows_) {
    const Question& question = row.merged.question();
    row.at = bytes_;
    row.bytes = answer_bytes(question);
    bytes_ += row.bytes;
    if (std::holds_alternative<GatherRow>(question)) ++gathered_;
  }
}

}  // namespace fairdraw::sharded
