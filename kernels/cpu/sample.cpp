// sample: from raw logits to tokens (fairdraw/sample.h). indexed_row.h does the work.
#include "fairdraw/sample.h"

#include "cpu/batch.h"

namespace fairdraw {

Error sample(const SampleRequest& request, const SampleResult& result, const Execution& execution) {
  return cpu::run_batch(request, result, execution, "logits", {},
                        /*wants_tokens=*/true);
}

}  // namespace fairdraw
