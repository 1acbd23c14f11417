// Beam search on the GPU: the checks, workspace and launches of beam_search_step
// (fairdraw/cuda_beam_search.h) and of beam_search_result (fairdraw/cuda_beam_result.h). The
// kernels of a step are in beam_search.cu and beam_rows.cu, and the kernel that ends a search is in
// beam_result.cu.
#include "cuda/beams/beam_search.h"

#include "common/arguments.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "serving/rules/beam_scores.h"

namespace fairdraw::cuda {
namespace {

BeamTask task_of(const BeamStepRequest& step, const BeamStepResult& result, BumpAllocator& memory) {
  const std::int64_t rows = step.rows.rows;
  BeamTask task;
  task.step = step;
  task.result = result;
  memory.allocate(task.terms, step.requests);
  memory.allocate(task.wanted, rows);
  memory.allocate(task.rows, rows);
  memory.allocate(task.values, product_of(rows, kMaxOfBeam));
  memory.allocate(task.ids, product_of(rows, kMaxOfBeam));
  memory.allocate(task.candidates,
                  product_of(product_of(step.requests, step.max_width), kMaxOfBeam));
  return task;
}

void check_pool(DevicePointers& pointers, const BeamPool& pool) {
  pointers.check("pool.counts", pool.counts);
  pointers.check("pool.scores", pool.scores);
  pointers.check("pool.cumulative", pool.cumulative);
  pointers.check("pool.lengths", pool.lengths);
  pointers.check("pool.beams", pool.beams);
  pointers.check("pool.tokens", pool.tokens);
}

void check_history(DevicePointers& pointers, const BeamHistory& history) {
  pointers.check("history.tokens", history.tokens);
  pointers.check("history.parents", history.parents);
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
  check_pool(pointers, result.pool);
  check_history(pointers, result.history);
  pointers.check_workspace(execution, workspace_bytes(step), step.requests);
  return pointers.error();
}

Error check_pointers(const BeamResultRequest& request, const BeamSequences& result) {
  DevicePointers pointers;
  check_pool(pointers, request.pool);
  check_history(pointers, request.history);
  pointers.check("live_beams", request.live_beams);
  pointers.check("scores", request.scores);
  pointers.check("generated", request.generated);
  pointers.check("states", request.states);
  pointers.check("length_penalty", request.length_penalty);
  pointers.check("tokens", result.tokens);
  pointers.check("lengths", result.lengths);
  pointers.check("result.scores", result.scores);
  pointers.check("cumulative", result.cumulative);
  pointers.check("statuses", result.statuses);
  return pointers.error();
}

}  // namespace

std::int64_t workspace_bytes(const BeamStepRequest& step) noexcept {
  if (step.requests <= 0) return 0;
  BumpAllocator memory(nullptr);
  task_of(step, {}, memory);
  return memory.bytes();
}

Error beam_search_step(const BeamStepRequest& step, const BeamStepResult& result,
                       const Execution& execution) {
  // The diversity rate must be a scalar, because an array of rates would have to be read from the
  // device.
  if (step.parameters.diversity_rate.is_array()) {
    return {ErrorCode::unsupported, "diversity_rate is an array; on a GPU it is a scalar, 0"};
  }
  if (Error error = check_beam_step(step, result)) return error;
  if (Error error = check_batch(step.rows, "rows")) return error;
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_pointers(step, result, execution)) return error;
  if (step.requests == 0) return {};
  BumpAllocator memory(execution.workspace);
  const BeamTask task = task_of(step, result, memory);
  const cudaStream_t stream = stream_of(execution);
  if (Error e = check_launch("beam_search", prepare_beam_rows(task, stream))) return e;
  if (step.rows.rows > 0) {
    if (Error e = check_launch("beam_search", find_beam_rows(task, path, stream))) return e;
  }
  return check_launch("beam_search", step_beams(task, stream));
}

Error beam_search_result(const BeamResultRequest& request, const BeamSequences& result,
                         void* stream) {
  if (Error error = check_beam_result(request, result)) return error;
  Path path = Path::best;
  if (Error error = check_path(path)) return error;
  if (Error error = check_pointers(request, result)) return error;
  if (request.requests == 0) return {};
  return check_launch("beam_result",
                      write_sequences(request, result, static_cast<cudaStream_t>(stream)));
}

}  // namespace fairdraw::cuda
