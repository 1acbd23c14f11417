// A step of beam search for benchmarks, on the CPU and on a GPU.
#pragma once

#include <optional>
#include <string>

#include "fairdraw/beam_search.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {

struct BeamOperation {
  std::int32_t width = 0;
  BeamInput input = BeamInput::logits;
};

/// Parses names of beam search operations: beam_4 is a step from logits with four beams per
/// request, beam_4/logprobs one from log-probabilities. Returns nothing for other names. Throws
/// harness::UsageError for a width out of range.
std::optional<BeamOperation> parse_beams(const std::string& name);

struct BeamStep {
  BeamStepRequest request;
  BeamStepResult result;
};

/// Makes one step of `requests` requests in which all beams are live. The arrays of the step are in
/// the memory of `arrays`.
template <class Arrays>
BeamStep make_beam_step(const BeamOperation& operation, const RowsView& rows, std::int64_t requests,
                        Arrays& arrays) {
  const std::int64_t places = requests * operation.width;
  std::vector<std::int64_t> begins;
  for (std::int64_t r = 0; r < requests; ++r) begins.push_back(r * operation.width);
  std::vector<float> scores;
  for (std::int64_t i = 0; i < places; ++i) {
    scores.push_back(-10.0F - 0.25F * static_cast<float>(i % operation.width));
  }
  BeamStep step;
  BeamStepRequest& request = step.request;
  request.rows = rows;
  request.input = operation.input;
  request.requests = requests;
  request.max_width = operation.width;
  request.row_begins = read_only(arrays.view(begins));
  request.live_beams = read_only(arrays.view(repeated(requests, operation.width)));
  request.scores = read_only(arrays.view(scores));
  request.generated = read_only(arrays.view(repeated(requests, std::int32_t{1})));
  request.states = read_only(arrays.view(repeated(requests, BeamState::live)));
  request.parameters.width = operation.width;
  request.parameters.max_tokens = 100;
  const auto zeros = [&arrays](std::int64_t n) {
    return arrays.view(repeated(n, std::int32_t{0}));
  };
  const auto floats = [&arrays](std::int64_t n) { return arrays.view(repeated(n, 0.0F)); };
  BeamStepResult& result = step.result;
  result.parents = zeros(places);
  result.tokens = zeros(places);
  result.scores = floats(places);
  result.live_beams = zeros(requests);
  result.states = arrays.view(repeated(requests, BeamState::live));
  result.statuses = arrays.view(repeated(requests, RowStatus::inactive));
  result.pool.counts = zeros(requests);
  result.pool.scores = floats(places);
  result.pool.cumulative = floats(places);
  result.pool.lengths = zeros(places);
  result.pool.beams = zeros(places);
  result.pool.tokens = zeros(places);
  return step;
}

}  // namespace fairdraw::suites
