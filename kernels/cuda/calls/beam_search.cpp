// beam_search_step (fairdraw/cuda.h) and beam_search_result (fairdraw/cuda_beam_result.h) on the
// GPU: checks, workspace, launches. The kernels around the row kernel are beam_search.cu, that of
// the end beam_result.cu.
#include "cuda/beams/beam_search.h"

#include "common/arguments.h"
#include "common/beam_scores.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/calls/workspace.h"
#include "cuda/device/device_pointers.h"
#include "cuda/tiles/index_tiles.h"
#include "fairdraw/cuda_beam_result.h"

namespace fairdraw::cuda {
namespace {

BeamTask task_of(const BeamStepRequest& step, const BeamStepResult& result, BumpAllocator& memory) {
  const std::int64_t rows = step.rows.rows;
  BeamTask task;
  task.step = step;
  task.result = result;
  memory.allocate(task.terms, step.requests);
  memory.allocate(task.top_k, rows);
  memory.allocate(task.active, rows);
  memory.allocate(task.records, rows);
  task.index = index_of(rows, step.rows.vocab, memory);
  memory.allocate(task.heads.counts, rows);
  memory.allocate(task.heads.values, product_of(rows, RowHeads::kMax));
  memory.allocate(task.heads.ids, product_of(rows, RowHeads::kMax));
  memory.allocate(task.candidates,
                  product_of(product_of(step.requests, step.max_width), RowHeads::kMax));
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

/// The largest values of the beams' rows, lowest ids first, and the weight of all.
Error enqueue_heads(const BeamTask& task, Path path, cudaStream_t stream) {
  const std::int64_t rows = task.step.rows.rows;
  TileIndexRequest index;
  index.rows = task.step.rows;
  index.active = {task.active, rows};
  TileSpread spread;
  if (Error e = check_call("best_spread", best_spread(index.rows, path, spread))) return e;
  if (Error e = check_launch("index_tiles", index_tiles(index, task.index, spread, stream))) {
    return e;
  }
  HeadsTask heads;
  heads.rows = index.rows;
  heads.active = index.active;
  heads.n = {task.top_k, rows};
  heads.index = task.index;
  heads.heads = task.heads;
  heads.records = task.records;
  return check_launch("find_heads", find_heads(heads, stream));
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
  // Arrays of diversity rates would have to be read from the device: only the scalar is offered.
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
    if (Error e = enqueue_heads(task, path, stream)) return e;
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
