// The operations of fairdraw/sampling.h on the GPU, as views of sample_rows (sample_rows.h) and of
// the kernels after it.
#include "common/arguments.h"
#include "common/draw_calls.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/write_rows.h"
#include "cuda/speculation/drafted_rows.h"

namespace fairdraw::cuda {
namespace {

Error draw_from_probs(const SampleRequest& request, const DrawResult& draws,
                      const Execution& execution) {
  SampleOptions options;
  options.rows_name = "probs";
  options.from_probs = true;
  return sample_rows(request, result_of(draws), execution, options);
}

Error renormalise(const SampleRequest& request, const FloatRows& probs, View<RowStatus> statuses,
                  SampleOptions options, const Execution& execution) {
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_renormalised(probs, request.logits.rows)) return error;
  SampleResult result;
  result.probs = probs;
  result.statuses = statuses;
  options.wants_tokens = false;
  return sample_rows(request, result, execution, options);
}

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

Error softmax(const RowsView& logits, const PerRequest<float>& temperature, const FloatRows& probs,
              View<RowStatus> statuses, const Execution& execution) {
  SampleRequest request;
  request.logits = logits;
  request.temperature = temperature;
  return renormalise(request, probs, statuses, {}, execution);
}

Error sampling_from_logits(const RowsView& logits, const DrawOptions& options,
                           const DrawResult& result, const Execution& execution) {
  return sample_rows(request_of(logits, options), result_of(result), execution, {});
}

Error sampling_from_probs(const RowsView& probs, const DrawOptions& options,
                          const DrawResult& result, const Execution& execution) {
  return draw_from_probs(request_of(probs, options), result, execution);
}

Error top_k_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution) {
  SampleRequest request = request_of(probs, options);
  request.top_k = top_k;
  return draw_from_probs(request, result, execution);
}

Error top_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& top_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution) {
  SampleRequest request = request_of(probs, options);
  request.top_p = top_p;
  return draw_from_probs(request, result, execution);
}

Error min_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& min_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution) {
  SampleRequest request = request_of(probs, options);
  request.min_p = min_p;
  return draw_from_probs(request, result, execution);
}

Error top_k_top_p_sampling_from_logits(const RowsView& logits,
                                       const PerRequest<std::int32_t>& top_k,
                                       const PerRequest<float>& top_p, FilterOrder filter_order,
                                       const DrawOptions& options, const DrawResult& result,
                                       const Execution& execution) {
  SampleRequest request = request_of(logits, options);
  request.top_k = top_k;
  request.top_p = top_p;
  request.filter_order = filter_order;
  return sample_rows(request, result_of(result), execution, {});
}

Error top_k_top_p_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                      const PerRequest<float>& top_p, FilterOrder filter_order,
                                      const DrawOptions& options, const DrawResult& result,
                                      const Execution& execution) {
  SampleRequest request = request_of(probs, options);
  request.top_k = top_k;
  request.top_p = top_p;
  request.filter_order = filter_order;
  return draw_from_probs(request, result, execution);
}

Error top_k_renorm_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                         const FloatRows& renormalised, View<RowStatus> statuses,
                         const Execution& execution) {
  SampleRequest request;
  request.logits = probs;
  request.top_k = top_k;
  SampleOptions options;
  options.rows_name = "probs";
  options.from_probs = true;
  options.top_k_1_keeps_ties = true;
  return renormalise(request, renormalised, statuses, options, execution);
}

Error top_p_renorm_probs(const RowsView& probs, const PerRequest<float>& top_p,
                         const FloatRows& renormalised, View<RowStatus> statuses,
                         const Execution& execution) {
  SampleRequest request;
  request.logits = probs;
  request.top_p = top_p;
  SampleOptions options;
  options.rows_name = "probs";
  options.from_probs = true;
  return renormalise(request, renormalised, statuses, options, execution);
}

Error top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k, void* masked,
                        std::int64_t masked_row_stride, View<RowStatus> statuses,
                        const Execution& execution) {
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_top_k_mask_logits(logits, top_k, masked, masked_row_stride, statuses)) {
    return error;
  }
  if (Error error = check_batch(logits, "logits")) return error;
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
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_chain(request, result)) return error;
  if (Error error = check_batch(request.target_probs, "target_probs")) return error;
  const ChainTask task{request, result, static_cast<RowRecord*>(execution.workspace)};
  const std::int64_t rows = request.target_probs.rows + task.draft_rows();
  if (Error error = check_pointers(request, result, execution, rows)) return error;
  if (request.batch == 0) return {};
  return check_launch("chain_speculative_sampling",
                      verify_chains(task, path, stream_of(execution)));
}

}  // namespace fairdraw::cuda
