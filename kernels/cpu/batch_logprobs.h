// Log-probabilities of a call, written from a row's values to the arrays of its outputs.
#pragma once

#include <cstdint>

#include "cpu/batch.h"
#include "fairdraw/log_probabilities.h"

namespace fairdraw::cpu {

/// Report arrays of one call. Each function does nothing if its arrays are absent.
class BatchLogprobs {
 public:
  BatchLogprobs(const SampleRequest& request, const LogprobsResult& result)
      : request_(request), result_(result) {}

  /// Begins the reports of a row. Precondition: its filters ran (worker.sampler), and its outputs
  /// were drawn, so that the sums that draws needed are known. `values` is the row that was
  /// filtered. If `processed`, it may differ from the caller's row `logit_row`, and raw modes read
  /// that row again.
  void begin_row(std::int64_t row, std::int64_t logit_row, const float* values, bool processed,
                 Worker& worker) const;
  /// Writes the report of one output of the row, with its num_samples tokens.
  void write_output(std::int64_t output, const std::int32_t* tokens, Worker& worker) const;
  /// Writes the report of the row itself.
  void write_row(std::int64_t row, Worker& worker) const;

  void write_failed_output(std::int64_t output) const;
  void write_failed_row(std::int64_t row) const;

 private:
  const SampleRequest& request_;
  const LogprobsResult& result_;
};

}  // namespace fairdraw::cpu
