// The log-probabilities of a call: from a row's values to the arrays of its outputs.
#pragma once

#include <cstdint>

#include "cpu/batch.h"
#include "fairdraw/log_probabilities.h"

namespace fairdraw::cpu {

/// Where the reports of one call go. All functions do nothing where their arrays are not given.
class BatchLogprobs {
 public:
  BatchLogprobs(const SampleRequest& request, const LogprobsResult& result)
      : request_(request), result_(result) {}

  /// A row whose filters ran (worker.sampler); its outputs have been drawn, so that the sums that
  /// they needed are known. `values`: the row that was filtered. `processed`: it may differ from
  /// the caller's, row `logit_row` of the logits, which raw modes then read again.
  void begin_row(std::int64_t row, std::int64_t logit_row, const float* values, bool processed,
                 Worker& worker) const;
  /// Of the row's output, with its num_samples tokens.
  void write_output(std::int64_t output, const std::int32_t* tokens, Worker& worker) const;
  /// Of the row itself.
  void write_row(std::int64_t row, Worker& worker) const;

  void write_failed_output(std::int64_t output) const;
  void write_failed_row(std::int64_t row) const;

 private:
  const SampleRequest& request_;
  const LogprobsResult& result_;
};

}  // namespace fairdraw::cpu
