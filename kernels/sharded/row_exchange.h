// Exchanges for one matrix of logits or probabilities, from the summaries of its rows to their
// survivors and tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/batch.h"
#include "fairdraw/sample.h"
#include "sharded/merged_row.h"
#include "sharded/shard_row.h"

namespace fairdraw::sharded {

/// Arguments of the call for one row.
struct RowInCall {
  bool active = true;  ///< if false, the row is padding, and its part of a block consists of zeros
  RowParameters parameters;
  std::vector<TokenWords> words;  ///< one per token
};

class RowExchange {
 public:
  /// Begins the exchanges. `rows` has this shard's columns; the parameters and seeds in `rows` are
  /// not used. The object `rules` must exist as long as the exchanges last. `in_call` has one entry
  /// per row.
  void begin(const SampleRequest& rows, const CallRules& rules, int shard,
             const Execution& execution, std::vector<RowInCall> in_call);

  /// Returns the size in bytes of a shard's part of the next exchange, or 0 if all rows are
  /// decided.
  std::size_t bytes() const { return bytes_; }
  /// Writes this shard's part of the exchange. Precondition: `part` has bytes() zeros.
  void write(std::byte* part);
  /// Accepts the parts of all shards for the exchange.
  void take(const std::vector<const std::byte*>& parts);

  /// Returns the number of rows that were gathered.
  std::int64_t gathered() const { return gathered_; }

  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  /// Returns the merged data of a row, which must be active.
  const MergedRow& merged(std::int64_t i) const { return rows_[at(i)].merged; }
  /// Returns the columns that this shard has of row i.
  ShardRow shard_row(std::int64_t i, cpu::Worker& worker) const;

 private:
  struct Row {
    RowInCall in_call;
    MergedRow merged;
    std::size_t at = 0;     // offset at which the row's part begins in an exchange
    std::size_t bytes = 0;  // size of the row's part in bytes, or 0 if the row asks nothing
  };

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  template <class Work>
  void for_each_active(const Work& work);

  SampleRequest request_;
  const CallRules* rules_ = nullptr;
  int shard_ = 0;
  Execution execution_;
  bool has_summaries_ = false;
  std::size_t bytes_ = 0;
  std::int64_t gathered_ = 0;
  std::vector<Row> rows_;
};

}  // namespace fairdraw::sharded
