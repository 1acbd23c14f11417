// Operations of fairdraw/sampling.h on the GPU. Some are calls of sample_rows (sample_rows.h), and
// others run the row kernel followed by a second kernel.
#include "common/arguments.h"
#include "common/operation_calls.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/write_rows.h"

namespace fairdraw::cuda {
Error run_operation(const OperationCall& call, const Execution& execution) {
  if (!call.wants_tokens) {
    if (Error error = check_renormalised(call.result.probs, call.request.logits.rows)) return error;
  }
  SampleOptions options;
  options.rows_name = call.rows_name();
  options.from_probs = call.from_probs;
  options.top_k_1_keeps_ties = call.top_k_1_keeps_ties;
  options.wants_tokens = call.wants_tokens;
  return sample_rows(call.request, call.result, execution, options);
}

Error top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k, void* masked,
                        std::int64_t masked_row_stride, View<RowStatus> statuses,
                        const Execution& execution) {
  if (Error error = check_top_k_mask_logits(logits, top_k, masked, masked_row_stride, statuses)) {
    return error;
  }
  if (Error error = check_batch(logits, "logits")) return error;
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  DevicePointers pointers;
  pointers.check("logits", logits);
  pointers.check("top_k", top_k);
  if (logits.rows > 0) pointers.check("masked", masked, 1);
  pointers.check("statuses", statuses);
  pointers.check_workspace(execution, workspace_bytes(logits.rows), logits.rows);
  if (pointers.error()) return pointers.error();
  if (logits.rows == 0) return {};

  RowsTask filter;
  filter.rows = logits;
  filter.top_k = top_k;
  filter.top_k_1_keeps_ties = true;
  filter.records = static_cast<RowRecord*>(execution.workspace);
  const cudaStream_t stream = stream_of(execution);
  if (Error error = check_launch("filter_rows", filter_rows(filter, path, stream))) return error;
  RowsOutputTask write;
  write.filtered.rows = logits;
  write.filtered.records = filter.records;
  write.masked = masked;
  write.masked_row_stride = masked_row_stride;
  write.statuses = statuses.data;
  return check_launch("write_rows", write_rows(write, stream));
}

}  // namespace fairdraw::cuda
