// sample on the GPU (fairdraw/cuda.h): checks, and which kernels a call needs.
//
// One draw a row, its tokens and statuses: the row kernel alone does that, and nothing is kept.
// Everything else takes the row kernel's records, one a row in the workspace, and then
//   draw_outputs  for `indices`, several samples, log-probabilities, support sizes;
//   write_rows    for masks and probabilities.
// Nothing is enqueued before all arguments are checked.
#include <string>

#include "arguments.h"
#include "availability.h"
#include "device_pointers.h"
#include "draw_outputs.h"
#include "edit_rows.h"
#include "sample_rows.h"
#include "workspace.h"
#include "write_rows.h"

namespace fairdraw::cuda {
namespace {

void check_processing(DevicePointers& pointers, const LogitsProcessing& processing) {
  const auto check_lists = [&pointers](const std::string& name, const TokenLists& lists) {
    if (lists.size > 0) pointers.check(name + ".data", lists.data, alignof(std::int32_t));
    pointers.check(name + ".begins", lists.begins);
    pointers.check(name + ".lengths", lists.lengths);
  };
  pointers.check("repetition_penalty", processing.repetition_penalty);
  pointers.check("frequency_penalty", processing.frequency_penalty);
  pointers.check("presence_penalty", processing.presence_penalty);
  check_lists("prompt", processing.prompt);
  check_lists("output", processing.output);
  pointers.check("prompt_mask", processing.prompt_mask);
  if (processing.output_counts.rows > 0) {
    pointers.check("output_counts", processing.output_counts.data, alignof(std::int32_t));
  }
  check_lists("bias_ids", processing.bias_ids);
  pointers.check("bias_values", processing.bias_values);
  pointers.check("min_tokens", processing.min_tokens);
  check_lists("stop_ids", processing.stop_ids);
  pointers.check("output_lengths", processing.output_lengths);
  check_lists("bad_words", processing.bad_words);
  check_lists("bad_word_lengths", processing.bad_word_lengths);
  check_lists("allowed_ids", processing.allowed_ids);
}

Error check_pointers(const SampleRequest& request, const SampleResult& result,
                     const Execution& execution, const SampleOptions& options) {
  DevicePointers pointers;
  pointers.check(options.rows_name, request.logits);
  pointers.check("temperature", request.temperature);
  pointers.check("top_k", request.top_k);
  pointers.check("top_p", request.top_p);
  pointers.check("min_p", request.min_p);
  pointers.check("seed", request.seed);
  pointers.check("offset", request.offset);
  pointers.check("allowed", request.allowed);
  check_processing(pointers, request.processing);
  pointers.check("active", request.active);
  pointers.check("indices", request.indices);
  if (options.wants_tokens) pointers.check("tokens", result.tokens);
  pointers.check("statuses", result.statuses);
  pointers.check("support_size", result.support_size);
  pointers.check("logprob", result.logprob);
  pointers.check("logprob_filtered", result.logprob_filtered);
  pointers.check("mask", result.mask);
  pointers.check(options.wants_tokens ? "probs" : "output", result.probs);
  pointers.check_workspace(execution, workspace_bytes(request), request.logits.rows);
  return pointers.error();
}

/// Which kernels a call needs.
struct Plan {
  bool draws_in_row_kernel;     ///< tokens and statuses, one draw a row
  bool has_outputs;             ///< draw_outputs
  bool has_rows;                ///< write_rows
  bool writes_statuses_by_row;  ///< of a call without tokens

  bool needs_records() const { return has_outputs || has_rows; }
};

Plan plan_of(const SampleRequest& request, const SampleResult& result,
             const SampleOptions& options) {
  const bool any_outputs = outputs_of(request) > 0;
  const bool one_a_row = !request.indices.given() && request.num_samples == 1;
  const bool measures =
      result.support_size.given() || result.logprob.given() || result.logprob_filtered.given();
  Plan plan{};
  plan.draws_in_row_kernel = options.wants_tokens && one_a_row && any_outputs;
  plan.has_outputs = options.wants_tokens && any_outputs && (!one_a_row || measures);
  plan.writes_statuses_by_row = !options.wants_tokens && result.statuses.given();
  plan.has_rows = request.logits.rows > 0 &&
                  (result.mask.given() || result.probs.given() || plan.writes_statuses_by_row);
  return plan;
}

RowsTask rows_task(const SampleRequest& request, const SampleResult& result,
                   const SampleOptions& options, const Plan& plan, const Workspace& workspace) {
  RowsTask task;
  task.rows = request.logits;
  task.from_probs = options.from_probs;
  task.top_k_1_keeps_ties = options.top_k_1_keeps_ties;
  task.tie_rule = request.tie_rule;
  task.filter_order = request.filter_order;
  task.temperature = request.temperature;
  task.top_k = request.top_k;
  task.top_p = request.top_p;
  task.min_p = request.min_p;
  task.allowed = request.allowed;
  task.active = request.active;
  if (plan.draws_in_row_kernel) {
    task.seed = request.seed;
    task.offset = request.offset;
    task.purpose = request.purpose;
    task.tokens = result.tokens.data;
    task.statuses = result.statuses.data;
  }
  if (plan.needs_records()) task.records = workspace.records;
  task.processing = request.processing;
  task.edits = workspace.edits;
  return task;
}

OutputsTask outputs_task(const SampleRequest& request, const SampleResult& result, const Plan& plan,
                         const FilteredRows& filtered) {
  OutputsTask task;
  task.filtered = filtered;
  task.indices = request.indices;
  task.outputs = outputs_of(request);
  task.num_samples = request.num_samples;
  task.seed = request.seed;
  task.offset = request.offset;
  task.purpose = request.purpose;
  task.tokens_are_drawn = plan.draws_in_row_kernel;
  task.tokens = result.tokens.data;
  task.statuses = plan.draws_in_row_kernel ? nullptr : result.statuses.data;
  task.support_size = result.support_size.data;
  task.logprob = result.logprob.data;
  task.logprob_filtered = result.logprob_filtered.data;
  return task;
}

}  // namespace

Error check_batch(const RowsView& rows, const char* name) {
  if (rows.rows <= kMostRows) return {};
  return out_of_range(std::string(name) + ".rows", std::to_string(rows.rows),
                      "0 to " + std::to_string(kMostRows));
}

Error sample_rows(const SampleRequest& request, const SampleResult& result,
                  const Execution& execution, const SampleOptions& options) {
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_request(request, options.rows_name)) return error;
  if (Error error = check_batch(request.logits, options.rows_name)) return error;
  if (Error error = check_result(request, result, options.wants_tokens)) return error;
  if (result.logprobs.given()) {
    return {ErrorCode::unsupported,
            "logprobs is given; the GPU reports logprob and logprob_filtered"};
  }
  if (Error error = check_pointers(request, result, execution, options)) return error;

  const Plan plan = plan_of(request, result, options);
  const cudaStream_t stream = stream_of(execution);
  const Workspace workspace = Workspace::of(request, execution.workspace);
  const bool filters = plan.draws_in_row_kernel || plan.needs_records();
  if (request.logits.rows > 0 && filters) {
    const RowsTask task = rows_task(request, result, options, plan, workspace);
    if (task.edits.given()) {
      if (Error error = check_launch("edit_rows", edit_rows(task, stream))) return error;
    }
    if (Error error = check_launch("filter_rows", filter_rows(task, path, stream))) return error;
  }
  const FilteredRows filtered{
      request.logits,
      options.from_probs,
      request.temperature,
      is_processed(request.processing) ? BitRows<const std::uint32_t>{} : request.allowed,
      workspace.edits,
      workspace.records};
  if (plan.has_outputs) {
    const OutputsTask task = outputs_task(request, result, plan, filtered);
    if (Error error = check_launch("draw_outputs", draw_outputs(task, stream))) return error;
  }
  if (plan.has_rows) {
    RowsOutputTask task;
    task.filtered = filtered;
    task.mask = result.mask;
    task.probs = result.probs;
    task.statuses = plan.writes_statuses_by_row ? result.statuses.data : nullptr;
    if (Error error = check_launch("write_rows", write_rows(task, stream))) return error;
  }
  return {};
}

Error sample(const SampleRequest& request, const SampleResult& result, const Execution& execution) {
  return sample_rows(request, result, execution, {});
}

}  // namespace fairdraw::cuda
