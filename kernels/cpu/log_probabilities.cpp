// Implementation of log_probabilities, which reports on given tokens
// (fairdraw/log_probabilities.h). The work is done by row_logprobs.h.
#include "fairdraw/log_probabilities.h"

#include "common/arguments.h"
#include "cpu/batch.h"

namespace fairdraw {

Error log_probabilities(const SampleRequest& request, View<const std::int32_t> token_ids,
                        const LogprobsResult& result, View<RowStatus> statuses,
                        const Execution& execution) {
  SampleRequest rows = request;
  if (is_raw(result.mode)) remove_filters(rows);
  if (Error error = check_request(rows, "logits")) return error;
  if (Error error = check_token_ids(rows, token_ids)) return error;
  SampleResult reports;
  reports.statuses = statuses;
  reports.logprobs = result;
  // Without outputs, the array of tokens may be null, and no token is drawn.
  return cpu::run_batch(rows, reports, execution, "logits", /*options=*/{}, /*wants_tokens=*/false,
                        token_ids);
}

}  // namespace fairdraw
