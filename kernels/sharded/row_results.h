// Writes the results of a decided row to the arrays of a call.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/batch.h"
#include "cpu/outputs_by_row.h"
#include "fairdraw/sample.h"
#include "sharded/merged_row.h"
#include "sharded/shard_row.h"

namespace fairdraw::sharded {

/// Writes the results of outputs whose index is not the number of a row.
void write_failures(const SampleRequest& request, const SampleResult& result);

class RowResults {
 public:
  RowResults(const SampleRequest& request, const SampleResult& result, const CallRules& rules,
             const cpu::OutputsByRow& outputs, std::int64_t row)
      : request_(request), result_(result), rules_(rules), outputs_(outputs), row_(row) {}

  void write_failure(RowStatus status) const;
  /// Writes the mask, the probabilities and the whole rows of reports for a failed row that is not
  /// padding.
  void write_failed_columns() const;
  /// Writes the results of a row that are the same on all ranks.
  void write(const MergedRow& row, cpu::Worker& worker) const;
  bool wants_columns() const {
    return result_.mask.given() || result_.probs.given() || result_.logprobs.all.given();
  }
  /// Writes the results of a row for the columns of this shard.
  void write_columns(const MergedRow& row, ShardRow& shard, cpu::Worker& worker) const;

 private:
  cpu::ScannedRow reported_row(const MergedRow& row, const float* x, std::size_t n) const;
  void begin_reports(const MergedRow& row, const float* x, std::size_t n,
                     cpu::Worker& worker) const;
  void write_reports(const MergedRow& row, std::int64_t output, std::size_t first_token,
                     const std::vector<KnownToken>& largest, cpu::Worker& worker) const;
  float reported_value(const MergedRow& row, float x, cpu::Worker& worker) const;

  const SampleRequest& request_;
  const SampleResult& result_;
  const CallRules& rules_;
  const cpu::OutputsByRow& outputs_;
  std::int64_t row_;
};

}  // namespace fairdraw::sharded
