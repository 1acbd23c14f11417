// Row of one shard: its summary, its answers to the questions of the row, and the results for the
// shard's own columns. As in the other operations, the row is read again in every phase, so that
// only exchanged data is kept between two phases.
//
// Cost. A summary takes one pass over the row for the index of tiles. If candidates are needed, it
// also takes another pass for the maxima of groups, and a few tiles. Drawing tokens takes one pass
// for the index, and one tile for each token; a row that is gathered is copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/batch.h"
#include "sharded/exchange.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {

/// Buffers of a thread for rows of shards, which later rows use again.
struct ShardBuffers {
  std::vector<std::int32_t> keys;
  std::vector<std::uint64_t> sums;
  std::vector<std::int32_t> ids;
  std::vector<float> values;
};

class ShardRow {
 public:
  /// Constructs the view of row `row` in the shard's part of a call, with `parameters`, which may
  /// be those of a request.
  ShardRow(const SampleRequest& request, const CallRules& rules, int shard, std::int64_t row,
           const RowParameters& parameters, cpu::Worker& worker, ShardBuffers& buffers);

  /// Reads and checks the row; its values may be used only if the status is ok.
  RowStatus read();
  const float* values() const { return values_; }
  /// Returns the caller's values, for raw modes; if nothing has changed the row, these are the row
  /// itself.
  const float* raw_values();
  /// Returns the number of this shard's columns that have an id below `id`.
  std::size_t ids_in_front(std::int64_t id) const {
    return ids_in_front(id, all_.begin, columns());
  }

  /// Writes the summary. Precondition: `part` has rules.layout.bytes() zeros.
  void write_summary(std::byte* part);
  /// Answers the question of the row with this shard's columns. Precondition: `part` has
  /// answer_bytes(question) zeros.
  void answer(const MergedRow& row, std::byte* part);

  // The following functions write results for the shard's columns (shard_outputs.cpp).
  void write_mask(const MergedRow& row, std::uint32_t* words);
  void write_probabilities(const MergedRow& row, float* probabilities);

 private:
  RowStatus status_of_values(RowStatus of_whole) const;
  RowStatus index_whole(const cpu::WeightRule& rule, const float* x);
  void sum_octaves(const cpu::WeightRule& rule, std::int32_t max_key, OctaveSums& octaves) const;
  std::int32_t largest_key() const;
  std::size_t list_largest(const float* x, std::size_t n);
  void write_candidates(std::byte* part, RowSummary& summary);
  void write_raw(std::byte* part);
  void write_cut_values(const float* x, std::byte* at) const;

  void answer_draws(const MergedRow& row, const DrawTokens& question, std::byte* part);
  void answer_sums(const MergedRow& row, const SumAbove& question, std::byte* part);
  void answer_counts(const CountInFront& question, std::byte* part);
  TokenAttempt draw(const MergedRow& row, std::size_t tile, std::uint64_t rest);
  int shift_of(const MergedRow& row, std::size_t tile) const;
  std::size_t columns() const { return static_cast<std::size_t>(request_.logits.vocab); }
  std::size_t whole_begin() const { return static_cast<std::size_t>(whole_.begin - all_.begin); }
  std::size_t whole_size() const { return static_cast<std::size_t>(whole_.size()); }
  const float* whole_values() const { return values_ + whole_begin(); }
  std::size_t ids_in_front(std::int64_t id, std::int64_t first, std::size_t n) const;

  const SampleRequest& request_;
  const CallRules& rules_;
  int shard_;
  std::int64_t row_;
  cpu::Worker& worker_;
  ShardBuffers& buffers_;
  Ids all_;
  Ids whole_;
  RowParameters parameters_;
  const float* values_ = nullptr;
  const float* raw_ = nullptr;
};

}  // namespace fairdraw::sharded
