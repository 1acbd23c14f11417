// Binds the operations of fairdraw/beam_search.h for the arrays of fairdraw/beam_search.py, all on
// the device of the rows.
#include "fairdraw/beam_search.h"

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"

namespace fairdraw::python {
namespace {

/// Makes the pool of finished sequences from Python's arrays.
BeamPool pool_of(const Named& pool, std::int64_t requests, std::int64_t places,
                 const Place& place) {
  const BeamPool arrays{pool.output<std::int32_t>("counts", requests, place, "pool.counts"),
                        pool.output<float>("scores", places, place, "pool.scores"),
                        pool.output<float>("cumulative", places, place, "pool.cumulative"),
                        pool.output<std::int32_t>("lengths", places, place, "pool.lengths"),
                        pool.output<std::int32_t>("beams", places, place, "pool.beams"),
                        pool.output<std::int32_t>("tokens", places, place, "pool.tokens")};
  pool.expect_all_read();
  return arrays;
}

/// Makes the history of the live beams from Python's arrays.
BeamHistory history_of(const Named& history, std::int64_t places, const Place& place) {
  const auto steps = history.as<std::int32_t>("max_steps");
  const std::int64_t size = places * steps;
  const BeamHistory arrays{history.output<std::int32_t>("tokens", size, place, "history.tokens"),
                           history.output<std::int32_t>("parents", size, place, "history.parents"),
                           steps};
  history.expect_all_read();
  return arrays;
}

/// Reads the arrays of the live beams into the request.
void read_live(const Named& live, const Place& place, auto& request) {
  request.live_beams = live.input<std::int32_t>("live_beams", place);
  request.scores = live.input<float>("scores", place);
  request.generated = live.input<std::int32_t>("generated", place);
  request.states = live.input<BeamState, std::int32_t>("states", place);
  live.expect_all_read();
}

/// Reads the arrays to which a step of a beam search writes the next live beams.
void read_next(const Named& next, const BeamStepRequest& request, const Place& place,
               BeamStepResult& result) {
  const std::int64_t requests = request.requests;
  const std::int64_t places = requests * request.max_width;
  result.parents = next.output<std::int32_t>("parents", places, place);
  result.tokens = next.output<std::int32_t>("tokens", places, place);
  result.scores = next.output<float>("scores", places, place);
  result.live_beams = next.output<std::int32_t>("live_beams", requests, place);
  result.generated = next.output<std::int32_t>("generated", requests, place);
  result.states = next.output<BeamState, std::int32_t>("states", requests, place);
  result.statuses = next.statuses(requests, place);
  next.expect_all_read();
}

void step(const Named& given) {
  const bool logprobs = given.as<bool>("logprobs");
  const Rows rows = rows_of(logprobs ? "logprobs" : "logits", given["rows"]);
  Place place = place_of(given, rows.array);
  BeamStepRequest request;
  request.rows = rows.view;
  request.input = logprobs ? BeamInput::logprobs : BeamInput::logits;
  request.requests = given.as<std::int64_t>("requests");
  request.max_width = given.as<std::int32_t>("max_width");
  request.row_begins = given.input<std::int64_t>("row_begins", place);
  const Named live("live", given["live"]);
  read_live(live, place, request);

  const Named parameters("parameters", given["parameters"]);
  const auto each = [&]<class T>(const char* name, PerRequest<T>& values) {
    const View<const T> array = parameters.input<T>(name, place);
    values = {array.data, array.size};
  };
  each("width", request.parameters.width);
  each("length_penalty", request.parameters.length_penalty);
  each("early_stopping", request.parameters.early_stopping);
  each("max_tokens", request.parameters.max_tokens);
  const Lists end_ids("end_ids", parameters["end_ids"], place);
  request.parameters.end_ids = end_ids.view;
  parameters.expect_all_read();

  const std::int64_t places = request.requests * request.max_width;
  const Named next("next", given["next"]);
  const Named pool("pool", given["pool"]);
  const Named history("history", given["history"]);
  BeamStepResult result;
  read_next(next, request, place, result);
  result.pool = pool_of(pool, request.requests, places, place);
  result.history = history_of(history, places, place);
  bring_workspace(place, given["workspace"], cuda::workspace_bytes(request));
  run(given, place, [&](const auto& how) { return beam_search_step(request, result, how); });
}

void best(const Named& given) {
  const Input<float> penalty("length_penalty", given["length_penalty"]);
  const Place place = place_of(given, penalty.array());
  BeamResultRequest request;
  request.requests = given.as<std::int64_t>("requests");
  request.max_width = given.as<std::int32_t>("max_width");
  request.best = given.as<std::int32_t>("best");
  request.length_penalty = {penalty.view.data, penalty.view.size};
  const std::int64_t places = request.requests * request.max_width;
  const Named pool("pool", given["pool"]);
  const Named history("history", given["history"]);
  const Named live("live", given["live"]);
  request.pool = pool_of(pool, request.requests, places, place);
  request.history = history_of(history, places, place);
  read_live(live, place, request);

  const std::int64_t wanted = request.requests * request.best;
  const BeamSequences result{
      given.output<std::int32_t>("tokens", wanted * request.history.max_steps, place),
      given.output<std::int32_t>("lengths", wanted, place),
      given.output<float>("scores", wanted, place),
      given.output<float>("cumulative", wanted, place), given.statuses(request.requests, place)};
  run(
      given, place, [&](const fairdraw::Execution&) { return beam_search_result(request, result); },
      [&](const cuda::Execution& how) {
        return cuda::beam_search_result(request, result, how.stream);
      });
}

}  // namespace

void bind_beam_search(nb::module_& module) {
  define(module, "beam_search_step", &step);
  define(module, "beam_search_result", &best);
  module.attr("MAX_BEAM_WIDTH") = kMaxBeamWidth;
}

}  // namespace fairdraw::python
