// Reports of log-probabilities of a call, which are written from the values of a row to the arrays
// of its outputs.
#pragma once

#include <cstdint>

#include "cpu/batch.h"
#include "fairdraw/log_probabilities.h"

namespace fairdraw::cpu {

/// Arrays for the reports of log-probabilities of one call. A function does nothing if the arrays
/// that it writes are absent.
class BatchLogprobs {
 public:
  BatchLogprobs(const SampleRequest& request, const LogprobsResult& result)
      : request_(request), result_(result) {}

  /// Begins the reports for a row. Precondition: the filters of the row have run (worker.sampler),
  /// and its outputs have been drawn, so that the sums that draws need are known. `values` is the
  /// filtered row. If `processed` is true, `values` may differ from the caller's row `logit_row`,
  /// and raw modes read that row again.
  void begin_row(std::int64_t logit_row, const float* values, bool processed, Worker& worker) const;
  /// Writes the report of one output of the row; the output has num_samples tokens.
  void write_output(std::int64_t output, const std::int32_t* tokens, Worker& worker) const;
  /// Writes the log-probabilities of all tokens of the row.
  void write_row(std::int64_t row, Worker& worker) const;

  void write_failed_output(std::int64_t output) const;
  void write_failed_row(std::int64_t row) const;

 private:
  const SampleRequest& request_;
  const LogprobsResult& result_;
};

}  // namespace fairdraw::cpu
