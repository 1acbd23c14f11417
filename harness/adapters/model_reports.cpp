// Reports log-probabilities for the sampler `model`: the values of the real-number oracle, rounded
// once.
#include <algorithm>
#include <limits>

#include "harness/adapters/model_sampler.h"
#include "reference/probability_filters.h"

namespace fairdraw::harness {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

}  // namespace

reference::RealLogprobs ModelSampler::report_values(const Row& row,
                                                    const reference::IntegerRow& result,
                                                    LogprobsMode mode) {
  if (is_raw(mode)) {
    return reference::real_log_probabilities(row.logits, {}, mode, row.parameters.temperature);
  }
  const reference::RowProcessing processing = row.processing.value_or(reference::RowProcessing());
  const reference::ProcessedRow processed =
      reference::process_row(row.logits, row.allowed, processing);
  const float temperature =
      reference::dynamic_temperature(processed.logits, processing, row.parameters.temperature);
  return reference::real_log_probabilities(processed.logits, result.mask, mode, temperature);
}

void ModelSampler::report(const fairdraw_batch& batch, const std::vector<Row>& rows,
                          const std::vector<reference::IntegerRow>& results) {
  if (batch.report_values == nullptr || batch.input != 0) return;
  const auto mode = static_cast<LogprobsMode>(batch.report_mode);
  const auto rule = static_cast<RankRule>(batch.rank_rule);
  const auto vocab = static_cast<std::size_t>(batch.vocab);
  std::vector<reference::RealLogprobs> reports(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RowStatus status = results[r].status;
    if (status == RowStatus::ok) reports[r] = report_values(rows[r], results[r], mode);
    if (batch.report_all == nullptr || status == RowStatus::inactive) continue;
    float* const all = batch.report_all + static_cast<std::int64_t>(r) * batch.report_all_stride;
    std::fill_n(all, vocab, kNone);
    for (const std::int32_t token : reports[r].order) {
      all[token] = static_cast<float>(reports[r].value[static_cast<std::size_t>(token)]);
    }
  }
  const reference::RealLogprobs nothing;
  for (std::int64_t output = 0; output < batch.outputs; ++output) {
    const std::int64_t r = batch.indices != nullptr ? batch.indices[output] : output;
    const bool in_range = r >= 0 && r < batch.rows;
    const reference::RealLogprobs& row = in_range ? reports[static_cast<std::size_t>(r)] : nothing;
    const auto value = [&row](std::int32_t token) {
      return static_cast<float>(row.value[static_cast<std::size_t>(token)]);
    };
    for (std::int32_t sample = 0; sample < batch.num_samples; ++sample) {
      const std::int64_t at = output * batch.num_samples + sample;
      const std::int32_t token = batch.tokens[at];
      // A mutated step may draw a token outside the vocabulary, or one without a value.
      const bool known = token >= 0 && static_cast<std::size_t>(token) < row.value.size();
      batch.report_values[at] = known ? value(token) : kNone;
      if (batch.report_ranks != nullptr) batch.report_ranks[at] = known ? row.rank(token, rule) : 0;
    }
    for (std::int32_t i = 0; i < batch.top_n; ++i) {
      const std::int64_t at = output * batch.top_n + i;
      const bool there = static_cast<std::size_t>(i) < row.order.size();
      const std::int32_t token = there ? row.order[static_cast<std::size_t>(i)] : -1;
      batch.report_top_ids[at] = token;
      batch.report_top_values[at] = there ? value(token) : kNone;
    }
  }
}

}  // namespace fairdraw::harness
