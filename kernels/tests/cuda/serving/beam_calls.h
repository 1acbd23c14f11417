// Calls of beam search whose arrays are copied to device memory.
#pragma once

#include <vector>

#include "fairdraw/beam_search.h"
#include "tests/cuda/copies.h"

namespace fairdraw::suites {

inline BeamPool pool_on(DeviceCopies& device, const BeamPool& pool) {
  return {device.out(pool.counts),  device.out(pool.scores), device.out(pool.cumulative),
          device.out(pool.lengths), device.out(pool.beams),  device.out(pool.tokens)};
}

inline BeamHistory history_on(DeviceCopies& device, const BeamHistory& history) {
  return {device.out(history.tokens), device.out(history.parents), history.max_steps};
}

/// Returns a step of beam search over float32 rows, with its arrays in device memory.
inline BeamStepRequest step_on(DeviceCopies& device, const BeamStepRequest& step) {
  BeamStepRequest on = step;
  const auto* values = static_cast<const float*>(step.rows.data);
  on.rows.data = device.in(View(values, step.rows.rows * step.rows.row_stride)).data;
  on.row_begins = device.in(step.row_begins);
  on.live_beams = device.in(step.live_beams);
  on.scores = device.in(step.scores);
  on.generated = device.in(step.generated);
  on.states = device.in(step.states);
  on.parameters.width = device.in(step.parameters.width);
  on.parameters.length_penalty = device.in(step.parameters.length_penalty);
  on.parameters.early_stopping = device.in(step.parameters.early_stopping);
  on.parameters.max_tokens = device.in(step.parameters.max_tokens);
  on.parameters.end_ids = device.in(step.parameters.end_ids);
  return on;
}

inline BeamStepResult step_result_on(DeviceCopies& device, const BeamStepResult& result) {
  BeamStepResult on = result;
  on.parents = device.out(result.parents);
  on.tokens = device.out(result.tokens);
  on.scores = device.out(result.scores);
  on.live_beams = device.out(result.live_beams);
  on.generated = device.out(result.generated);
  on.states = device.out(result.states);
  on.statuses = device.out(result.statuses);
  on.pool = pool_on(device, result.pool);
  on.history = history_on(device, result.history);
  return on;
}

inline BeamResultRequest end_on(DeviceCopies& device, const BeamResultRequest& request) {
  BeamResultRequest on = request;
  on.pool = pool_on(device, request.pool);
  on.history = history_on(device, request.history);
  on.live_beams = device.in(request.live_beams);
  on.scores = device.in(request.scores);
  on.generated = device.in(request.generated);
  on.states = device.in(request.states);
  on.length_penalty = device.in(request.length_penalty);
  return on;
}

inline BeamSequences sequences_on(DeviceCopies& device, const BeamSequences& result) {
  return {device.out(result.tokens), device.out(result.lengths), device.out(result.scores),
          device.out(result.cumulative), device.out(result.statuses)};
}

}  // namespace fairdraw::suites
