// What a call of the contract wants reported, as fairdraw/log_probabilities.h has it: views over
// the call's own arrays.
#pragma once

#include "fairdraw/log_probabilities.h"
#include "harness/contract/batch.h"

namespace fairdraw::harness {

inline LogprobsResult reports_of(const fairdraw_batch& batch) {
  const std::int64_t tokens = batch.outputs * batch.num_samples;
  const std::int64_t entries = batch.outputs * batch.top_n;
  LogprobsResult logprobs;
  logprobs.mode = static_cast<LogprobsMode>(batch.report_mode);
  logprobs.rank_rule = static_cast<RankRule>(batch.rank_rule);
  logprobs.top_n = batch.top_n;
  if (batch.report_values != nullptr) logprobs.values = {batch.report_values, tokens};
  if (batch.report_ranks != nullptr) logprobs.ranks = {batch.report_ranks, tokens};
  if (batch.report_top_ids != nullptr) logprobs.top_ids = {batch.report_top_ids, entries};
  if (batch.report_top_values != nullptr) {
    logprobs.top_values = {batch.report_top_values, entries};
  }
  if (batch.report_all != nullptr) {
    logprobs.all = {batch.report_all, batch.rows, batch.report_all_stride};
  }
  return logprobs;
}

}  // namespace fairdraw::harness
