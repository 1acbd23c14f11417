// log_probabilities: reports of given tokens (fairdraw/log_probabilities.h). The work is in
// row_logprobs.h.
#include "fairdraw/log_probabilities.h"

#include "arguments.h"
#include "batch.h"

namespace fairdraw {

Error log_probabilities(const SampleRequest& request, View<const std::int32_t> token_ids,
                        const LogprobsResult& result, View<RowStatus> statuses,
                        const Execution& execution) {
  SampleRequest rows = request;
  if (is_raw(result.mode)) {  // a row as the caller gives it: nothing to process, nothing to filter
    rows.processing = {};
    rows.allowed = {};
    rows.temperature = 1.0F;
    rows.top_k = 0;
    rows.top_p = 1.0F;
    rows.min_p = 0.0F;
  }
  if (Error error = check_request(rows, "logits")) return error;
  const std::int64_t tokens = outputs_of(rows) * rows.num_samples;
  if (!token_ids.given() && tokens > 0) return out_of_range("token_ids", "null", "an array");
  if (Error error = check_length("token_ids", token_ids.size, tokens, "outputs * num_samples")) {
    return error;
  }
  SampleResult reports;
  reports.statuses = statuses;
  reports.logprobs = result;
  cpu::FilterOptions options;
  options.tie_rule = request.tie_rule;
  options.filter_order = request.filter_order;
  // Without outputs there is nothing to point to, and nothing is drawn.
  return cpu::run_batch(rows, reports, execution, "logits", options, /*wants_tokens=*/false,
                        token_ids);
}

}  // namespace fairdraw
