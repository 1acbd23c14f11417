// beam_search_step on the GPU (fairdraw/cuda.h): checks, workspace, launches. The kernels around
// the row kernel are beam_search.cu.
#include "beam_search.h"

#include "availability.h"
#include "beam_scores.h"
#include "device_pointers.h"
#include "sample_rows.h"
#include "workspace.h"

namespace fairdraw::cuda {
namespace {

BeamTask task_of(const BeamStepRequest& step, const BeamStepResult& result, Parts& parts) {
  const std::int64_t rows = step.rows.rows;
  BeamTask task;
  task.step = step;
  task.result = result;
  task.terms = parts.take<BeamTerms>(step.requests);
  task.top_k = parts.take<std::int32_t>(rows);
  task.active = parts.take<std::uint8_t>(rows);
  task.records = parts.take<RowRecord>(rows);
  task.heads = heads_of(rows, parts);
  task.candidates = parts.take<BeamCandidate>(step.requests * step.max_width * RowHeads::kMost);
  return task;
}

Error check_pointers(const BeamStepRequest& step, const BeamStepResult& result,
                     const Execution& execution) {
  DevicePointers pointers;
  const BeamParameters& given = step.parameters;
  pointers.check("rows", step.rows);
  pointers.check("row_begins", step.row_begins);
  pointers.check("live_beams", step.live_beams);
  pointers.check("scores", step.scores);
  pointers.check("generated", step.generated);
  pointers.check("states", step.states);
  pointers.check("width", given.width);
  pointers.check("length_penalty", given.length_penalty);
  pointers.check("early_stopping", given.early_stopping);
  pointers.check("max_tokens", given.max_tokens);
  pointers.check("end_ids", given.end_ids);
  pointers.check("parents", result.parents);
  pointers.check("tokens", result.tokens);
  pointers.check("result.scores", result.scores);
  pointers.check("result.live_beams", result.live_beams);
  pointers.check("result.generated", result.generated);
  pointers.check("result.states", result.states);
  pointers.check("statuses", result.statuses);
  pointers.check("pool.counts", result.pool.counts);
  pointers.check("pool.scores", result.pool.scores);
  pointers.check("pool.cumulative", result.pool.cumulative);
  pointers.check("pool.lengths", result.pool.lengths);
  pointers.check("pool.beams", result.pool.beams);
  pointers.check("pool.tokens", result.pool.tokens);
  pointers.check("history.tokens", result.history.tokens);
  pointers.check("history.parents", result.history.parents);
  pointers.check_workspace(execution, workspace_bytes(step), step.requests);
  return pointers.error();
}

/// What the row kernel does for beams: their largest values, lowest ids first, and in rows of
/// logits the weight of all.
RowsTask rows_task(const BeamTask& task) {
  const std::int64_t rows = task.step.rows.rows;
  RowsTask filter;
  filter.rows = task.step.rows;
  filter.tie_rule = TieRule::lowest_id;
  filter.top_k = {task.top_k, rows};
  filter.active = {task.active, rows};
  filter.total_of_row = task.step.input == BeamInput::logits;
  filter.records = task.records;
  filter.heads = task.heads;
  return filter;
}

}  // namespace

std::int64_t workspace_bytes(const BeamStepRequest& step) noexcept {
  if (step.requests <= 0) return 0;
  Parts parts(nullptr);
  task_of(step, {}, parts);
  return parts.bytes();
}

Error beam_search_step(const BeamStepRequest& step, const BeamStepResult& result,
                       const Execution& execution) {
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  // Arrays of diversity rates would have to be read from the device: only the scalar is offered.
  if (step.parameters.diversity_rate.is_array()) {
    return {ErrorCode::unsupported, "diversity_rate is an array; on a GPU it is a scalar, 0"};
  }
  if (Error error = check_beam_step(step, result)) return error;
  if (Error error = check_batch(step.rows, "rows")) return error;
  if (Error error = check_pointers(step, result, execution)) return error;
  if (step.requests == 0) return {};
  Parts parts(execution.workspace);
  const BeamTask task = task_of(step, result, parts);
  const cudaStream_t stream = stream_of(execution);
  if (Error e = check_launch("beam_search", prepare_beam_rows(task, stream))) return e;
  if (step.rows.rows > 0) {
    if (Error e = check_launch("filter_rows", filter_rows(rows_task(task), path, stream))) return e;
  }
  return check_launch("beam_search", step_beams(task, stream));
}

}  // namespace fairdraw::cuda
