// Implementation of sample, which leads from raw logits to tokens (fairdraw/sample.h). The work is
// done by indexed_row.h.
#include "fairdraw/sample.h"

#include "cpu/batch.h"

namespace fairdraw {

Error sample(const SampleRequest& request, const SampleResult& result, const Execution& execution) {
  return cpu::run_batch(request, result, execution, "logits", {},
                        /*wants_tokens=*/true);
}

}  // namespace fairdraw
