// Implementation of `sample` on the GPU (fairdraw/cuda.h): the checks of arguments, and the kernels
// of a call.
//
// If one token is drawn per row, and only tokens and statuses are requested, the row kernel does
// all the work and stores no records. All other results need the records of the row kernel, one per
// row in the workspace, and one of the following steps, in this order.
//   the task options.survivors, which may change tokens and statuses;
//   draw_outputs  for `indices`, several samples, log-probabilities, support sizes;
//   write_rows    for masks and probabilities;
//   row_logprobs  for reports (log_probabilities.cpp).
// Reports of given tokens do not need the row kernel if they use the caller's own rows. No kernel
// is enqueued until all arguments have been checked.
#include <string>

#include "common/arguments.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/draw_outputs.h"
#include "cuda/outputs/write_rows.h"
#include "cuda/processing/decay_top_p.h"
#include "cuda/processing/follow_entropy.h"

namespace fairdraw::cuda {
namespace {

Error check_pointers(const SampleRequest& request, const SampleResult& result,
                     const Execution& execution, const SampleOptions& options) {
  DevicePointers pointers;
  pointers.check(options.rows_name, request.logits);
  pointers.check("temperature", request.temperature);
  pointers.check("top_k", request.top_k);
  pointers.check("top_p", request.top_p);
  pointers.check("min_p", request.min_p);
  pointers.check("tie_rule", request.tie_rule);
  pointers.check("filter_order", request.filter_order);
  pointers.check("seed", request.seed);
  pointers.check("offset", request.offset);
  pointers.check("allowed", request.allowed);
  pointers.check(request.processing);
  pointers.check("active", request.active);
  pointers.check("indices", request.indices);
  if (options.wants_tokens) pointers.check("tokens", result.tokens);
  pointers.check("statuses", result.statuses);
  pointers.check("support_size", result.support_size);
  pointers.check("logprob", result.logprob);
  pointers.check("logprob_filtered", result.logprob_filtered);
  pointers.check("logprobs.values", result.logprobs.values);
  pointers.check("logprobs.ranks", result.logprobs.ranks);
  pointers.check("logprobs.top_ids", result.logprobs.top_ids);
  pointers.check("logprobs.top_values", result.logprobs.top_values);
  pointers.check("logprobs.all", result.logprobs.all);
  pointers.check("token_ids", options.given_tokens);
  pointers.check("mask", result.mask);
  pointers.check(options.wants_tokens ? "probs" : "output", result.probs);
  BumpAllocator memory(nullptr);
  Workspace::of(request, result.logprobs.given(), memory);
  if (options.survivors != nullptr) {
    options.survivors->check(pointers);
    options.survivors->allocate(request, memory);
  }
  pointers.check_workspace(execution, memory.bytes(), request.logits.rows);
  return pointers.error();
}

/// Returns whether the call itself writes the sizes of the sets of survivors.
bool writes_sizes(const SampleResult& result, const SampleOptions& options) {
  return result.support_size.given() &&
         (options.survivors == nullptr || !options.survivors->writes_sizes());
}

/// Kernels of a call.
struct Plan {
  bool draws_in_row_kernel;  ///< whether the row kernel writes tokens and statuses, with one draw
                             ///< per row
  bool has_outputs;          ///< whether the call needs draw_outputs
  bool has_rows;             ///< whether the call needs write_rows
  bool writes_statuses_by_row;  ///< whether a status per row is written, in calls without tokens
  bool has_reports;             ///< whether the call needs row_logprobs
  bool has_survivors;           ///< whether the call has options.survivors

  bool needs_records() const { return has_outputs || has_rows || has_reports || has_survivors; }
};

Plan plan_of(const SampleRequest& request, const SampleResult& result,
             const SampleOptions& options) {
  const bool any_outputs = outputs_of(request) > 0;
  const bool one_a_row = !request.indices.given() && request.num_samples == 1;
  const bool measures =
      writes_sizes(result, options) || result.logprob.given() || result.logprob_filtered.given();
  Plan plan{};
  plan.draws_in_row_kernel = options.wants_tokens && one_a_row && any_outputs;
  plan.has_outputs = options.wants_tokens && any_outputs && (!one_a_row || measures);
  plan.writes_statuses_by_row = !options.wants_tokens && !options.tokens_are_given &&
                                !options.reports_statuses && result.statuses.given();
  plan.has_reports = result.logprobs.given() || options.tokens_are_given;
  plan.has_survivors = options.survivors != nullptr;
  plan.has_rows = request.logits.rows > 0 &&
                  (result.mask.given() || result.probs.given() || plan.writes_statuses_by_row);
  return plan;
}

PerRequest<float> temperature_of(const SampleRequest& request, const Workspace& workspace) {
  if (workspace.temperature == nullptr) return request.temperature;
  return {workspace.temperature, request.logits.rows};
}

RowsTask rows_task(const SampleRequest& request, const SampleResult& result,
                   const SampleOptions& options, const Plan& plan, const Workspace& workspace,
                   const TileRows<std::int32_t>& survivor_keys) {
  RowsTask task;
  task.rows = request.logits;
  task.from_probs = options.from_probs;
  task.top_k_1_keeps_ties = options.top_k_1_keeps_ties;
  task.tie_rule = request.tie_rule;
  task.filter_order = request.filter_order;
  task.temperature = temperature_of(request, workspace);
  task.parameters_come_late = workspace.temperature != nullptr;
  task.top_k = request.top_k;
  task.top_p = request.top_p;
  if (workspace.top_p != nullptr) task.top_p = {workspace.top_p, request.logits.rows};
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
  if (plan.has_reports && needs_order(result.logprobs) && !is_raw(result.logprobs.mode)) {
    task.keys = workspace.index.keys;
  }
  if (plan.has_survivors && !task.keys.given()) task.keys = survivor_keys;
  task.edits = workspace.edits;
  return task;
}

OutputsTask outputs_task(const SampleRequest& request, const SampleResult& result,
                         const SampleOptions& options, const Plan& plan,
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
  if (writes_sizes(result, options)) task.support_size = result.support_size.data;
  task.logprob = result.logprob.data;
  task.logprob_filtered = result.logprob_filtered.data;
  return task;
}

LogprobsTask logprobs_task(const SampleRequest& request, const SampleResult& result,
                           const SampleOptions& options, const FilteredRows& filtered,
                           const Workspace& workspace) {
  LogprobsTask task;
  task.filtered = filtered;
  task.index = workspace.index;
  task.result = result.logprobs;
  task.indices = request.indices;
  task.outputs = outputs_of(request);
  task.num_samples = request.num_samples;
  task.tokens = options.tokens_are_given ? options.given_tokens.data : result.tokens.data;
  task.tokens_are_given = options.tokens_are_given;
  if (options.tokens_are_given || options.reports_statuses) task.statuses = result.statuses.data;
  return task;
}

}  // namespace

Error check_batch(const RowsView& rows, const char* name) {
  if (rows.rows <= kMaxRows) return {};
  return out_of_range(std::string(name) + ".rows", std::to_string(rows.rows),
                      "0 to " + std::to_string(kMaxRows));
}

Error sample_rows(const SampleRequest& request, const SampleResult& result,
                  const Execution& execution, const SampleOptions& options) {
  if (Error error = check_request(request, options.rows_name)) return error;
  if (Error error = check_batch(request.logits, options.rows_name)) return error;
  if (Error error = check_result(request, result, options.wants_tokens)) return error;
  if (Error error = check_logprobs(request, result.logprobs)) return error;
  if (options.survivors != nullptr) {
    if (Error error = options.survivors->check(request)) return error;
  }
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_pointers(request, result, execution, options)) return error;

  const Plan plan = plan_of(request, result, options);
  const cudaStream_t stream = stream_of(execution);
  BumpAllocator memory(execution.workspace);
  Workspace workspace = Workspace::of(request, result.logprobs.given(), memory);
  // True if only reports of the caller's unprocessed rows are requested.
  const bool only_raw =
      options.tokens_are_given && result.logprobs.given() && is_raw(result.logprobs.mode);
  // process_logits reports logits before temperature and filters, so that neither changes.
  if (options.reports_statuses || only_raw) workspace.top_p = workspace.temperature = nullptr;
  TileRows<std::int32_t> survivor_keys;
  if (plan.has_survivors) survivor_keys = options.survivors->allocate(request, memory);
  const bool filters = plan.draws_in_row_kernel || plan.needs_records();
  TileRows<std::int32_t> keys;
  if (request.logits.rows > 0 && filters && !only_raw) {
    RowsTask task = rows_task(request, result, options, plan, workspace, survivor_keys);
    keys = task.keys;
    if (workspace.top_p != nullptr) {
      const DecayTask decay{request.logits.rows, request.active, request.processing, request.top_p,
                            workspace.top_p};
      if (Error error = check_launch("decay_top_p", decay_top_p(decay, stream))) return error;
    }
    RowChanges changes{.top_p = task.top_p, .green = {}};
    if (plan.has_survivors) {
      const bool has_tokens_alone = !plan.has_outputs && !plan.has_rows && !plan.has_reports;
      if (Error error = options.survivors->prepare(request, has_tokens_alone, changes, stream)) {
        return error;
      }
    }
    task.top_p = changes.top_p;
    if (task.edits.given()) {
      EditTask edits{request.logits, request.allowed, request.active, request.processing,
                     task.edits};
      edits.entropy_shares = workspace.entropy_shares;
      edits.green = changes.green;
      if (Error error = check_launch("edit_rows", edit_rows(edits, stream))) return error;
    }
    if (workspace.temperature != nullptr) {
      const TemperatureTask follow{request.logits.rows,      request.active,
                                   request.processing,       request.temperature,
                                   workspace.entropy_shares, workspace.temperature};
      if (Error error = check_launch("follow_entropy", follow_entropy(follow, stream))) {
        return error;
      }
    }
    if (Error error = check_launch("filter_rows", filter_rows(task, path, stream))) return error;
  }
  const FilteredRows filtered{
      request.logits,
      options.from_probs,
      temperature_of(request, workspace),
      is_processed(request.processing) ? BitRows<const std::uint32_t>{} : request.allowed,
      workspace.edits,
      only_raw ? nullptr : workspace.records};
  if (plan.has_survivors) {
    const SurvivorRows rows{filtered, workspace.records, keys, path};
    if (Error error = options.survivors->enqueue(request, result, rows, stream)) return error;
  }
  if (plan.has_outputs) {
    const OutputsTask outputs = outputs_task(request, result, options, plan, filtered);
    if (Error error = check_launch("draw_outputs", draw_outputs(outputs, stream))) return error;
  }
  if (plan.has_rows) {
    RowsOutputTask rows;
    rows.filtered = filtered;
    rows.mask = result.mask;
    rows.probs = result.probs;
    rows.statuses = plan.writes_statuses_by_row ? result.statuses.data : nullptr;
    if (Error error = check_launch("write_rows", write_rows(rows, stream))) return error;
  }
  if (!plan.has_reports) return {};
  return enqueue_reports(logprobs_task(request, result, options, filtered, workspace),
                         request.active, path, stream);
}

Error sample(const SampleRequest& request, const SampleResult& result, const Execution& execution) {
  return sample_rows(request, result, execution, {});
}

}  // namespace fairdraw::cuda
