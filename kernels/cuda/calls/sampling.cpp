// The operations of fairdraw/sampling.h on the GPU: calls of sample_rows (sample_rows.h), and those
// that take the row kernel and a kernel of their own after it.
#include "common/arguments.h"
#include "common/operation_calls.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/write_rows.h"
#include "cuda/speculation/drafted_rows.h"

namespace fairdraw::cuda {
namespace {

Error check_pointers(const ChainSpeculativeRequest& request, const ChainSpeculativeResult& result,
                     const Execution& execution, std::int64_t rows) {
  const View<const std::int32_t>& drafted = request.draft_tokens;
  DevicePointers pointers;
  if (request.num_draft_tokens > 0) pointers.check("draft_probs", request.draft_probs);
  pointers.check_needed("draft_tokens", drafted.data, drafted.size, alignof(std::int32_t));
  pointers.check("target_probs", request.target_probs);
  pointers.check("seed", request.seed);
  pointers.check("offset", request.offset);
  pointers.check_needed("tokens", result.tokens.data, result.tokens.size, alignof(std::int32_t));
  pointers.check("accepted", result.accepted);
  pointers.check("emitted", result.emitted);
  pointers.check("statuses", result.statuses);
  pointers.check_workspace(execution, workspace_bytes(rows), rows);
  return pointers.error();
}

}  // namespace

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

Error chain_speculative_sampling(const ChainSpeculativeRequest& request,
                                 const ChainSpeculativeResult& result, const Execution& execution) {
  if (Error error = check_chain(request, result)) return error;
  if (Error error = check_batch(request.target_probs, "target_probs")) return error;
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  const ChainTask task{request, result, static_cast<RowRecord*>(execution.workspace)};
  const std::int64_t rows = request.target_probs.rows + request.batch * request.num_draft_tokens;
  if (Error error = check_pointers(request, result, execution, rows)) return error;
  if (request.batch == 0) return {};
  return check_launch("chain_speculative_sampling",
                      verify_chains(task, path, stream_of(execution)));
}

}  // namespace fairdraw::cuda
