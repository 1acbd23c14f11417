// sample: from raw logits to tokens (fairdraw/sample.h). The work is in row_sampler.h.
#include "fairdraw/sample.h"

#include "batch.h"

namespace fairdraw {

Error sample(const SampleRequest& request, const SampleResult& result, const Execution& execution) {
  cpu::FilterOptions options;
  options.tie_rule = request.tie_rule;
  options.filter_order = request.filter_order;
  return cpu::run_batch(request, result, execution, "logits", options, /*wants_tokens=*/true);
}

}  // namespace fairdraw
