// Implementation of process_logits (fairdraw/process_logits.h). The work is done by
// logits_processor.h.
#include "fairdraw/process_logits.h"

#include <algorithm>
#include <limits>

#include "common/arguments.h"
#include "common/processing_rules.h"
#include "cpu/batch.h"

namespace fairdraw {

Error process_logits(const ProcessLogitsRequest& request, const ProcessLogitsResult& result,
                     const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_process_logits(request, result)) return error;
  const std::int64_t vocab = request.logits.vocab;
  cpu::for_each_row(request.logits.rows, execution, [&](std::int64_t row, cpu::Worker& worker) {
    RowStatus status = RowStatus::inactive;
    if (!request.active.given() || request.active.data[row] != 0) {
      float* out = result.processed.data + row * result.processed.row_stride;
      const std::uint32_t* allowed = request.allowed.given()
                                         ? request.allowed.data + row * request.allowed.row_stride
                                         : nullptr;
      status = check(parameters_of(request.processing, row));
      if (status == RowStatus::ok) {
        status = worker.reader.write_processed(*worker.passes, request.logits, row,
                                               request.processing, allowed, out);
      }
      if (status != RowStatus::ok) {
        std::fill_n(out, vocab, -std::numeric_limits<float>::infinity());
      }
    }
    if (result.statuses.given()) result.statuses.data[row] = status;
  });
  return {};
}

}  // namespace fairdraw
