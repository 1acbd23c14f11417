// The operations of fairdraw/beam_search.h on the arrays of fairdraw/beam_search.py, which all lie
// where the rows do.
#include "fairdraw/beam_search.h"

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

/// Finished sequences: (counts, scores, cumulative, lengths, beams, tokens).
class Pool {
 public:
  Pool(Handle object, std::int64_t requests, std::int64_t places, const Place& place)
      : parts_(nb::cast<nb::tuple>(object)),
        counts_("pool.counts", parts_[0], requests, place),
        scores_("pool.scores", parts_[1], places, place),
        cumulative_("pool.cumulative", parts_[2], places, place),
        lengths_("pool.lengths", parts_[3], places, place),
        beams_("pool.beams", parts_[4], places, place),
        tokens_("pool.tokens", parts_[5], places, place) {
    view = {counts_.view, scores_.view, cumulative_.view, lengths_.view, beams_.view, tokens_.view};
  }
  BeamPool view;

 private:
  nb::tuple parts_;
  Output<std::int32_t> counts_;
  Output<float> scores_, cumulative_;
  Output<std::int32_t> lengths_, beams_, tokens_;
};

/// What live beams were: (tokens, parents, max_steps).
class History {
 public:
  History(Handle object, std::int64_t places, const Place& place)
      : parts_(nb::cast<nb::tuple>(object)),
        steps_(nb::cast<std::int32_t>(parts_[2])),
        tokens_("history.tokens", parts_[0], places * steps_, place),
        parents_("history.parents", parts_[1], places * steps_, place) {
    view = {tokens_.view, parents_.view, steps_};
  }
  BeamHistory view;

 private:
  nb::tuple parts_;
  std::int32_t steps_;
  Output<std::int32_t> tokens_, parents_;
};

/// Where live beams are: (live_beams, scores, generated, states).
class Live {
 public:
  Live(Handle object, const Place& place)
      : parts_(nb::cast<nb::tuple>(object)),
        beams("live_beams", parts_[0], place),
        scores("scores", parts_[1], place),
        generated("generated", parts_[2], place),
        states("states", parts_[3], place) {}

 private:
  nb::tuple parts_;

 public:
  Input<std::int32_t> beams;
  Input<float> scores;
  Input<std::int32_t> generated;
  Input<BeamState, std::int32_t> states;
};

/// Where a step writes them: (parents, tokens, scores, live_beams, generated, states, statuses).
class Next {
 public:
  Next(Handle object, std::int64_t requests, std::int64_t places, const Place& place)
      : parts_(nb::cast<nb::tuple>(object)),
        parents_("parents", parts_[0], places, place),
        tokens_("tokens", parts_[1], places, place),
        scores_("scores", parts_[2], places, place),
        live_beams_("live_beams", parts_[3], requests, place),
        generated_("generated", parts_[4], requests, place),
        states_("states", parts_[5], requests, place),
        statuses_("statuses", parts_[6], requests, place) {}

  void into(BeamStepResult& result) const {
    result.parents = parents_.view;
    result.tokens = tokens_.view;
    result.scores = scores_.view;
    result.live_beams = live_beams_.view;
    result.generated = generated_.view;
    result.states = states_.view;
    result.statuses = statuses_.view;
  }

 private:
  nb::tuple parts_;
  Output<std::int32_t> parents_, tokens_;
  Output<float> scores_;
  Output<std::int32_t> live_beams_, generated_;
  Output<BeamState, std::int32_t> states_;
  Statuses statuses_;
};

/// (width, length_penalty, early_stopping, max_tokens, end_ids).
class Parameters {
 public:
  Parameters(Handle object, const Place& place)
      : parts_(nb::cast<nb::tuple>(object)),
        width_("width", parts_[0], place),
        length_penalty_("length_penalty", parts_[1], place),
        early_stopping_("early_stopping", parts_[2], place),
        max_tokens_("max_tokens", parts_[3], place),
        end_ids_("end_ids", parts_[4], place) {
    view.width = of(width_);
    view.length_penalty = of(length_penalty_);
    view.early_stopping = of(early_stopping_);
    view.max_tokens = of(max_tokens_);
    view.end_ids = end_ids_.view;
  }
  BeamParameters view;

 private:
  template <class T>
  static PerRequest<T> of(const Input<T>& input) {
    return {input.view.data, input.view.size};
  }

  nb::tuple parts_;
  Input<std::int32_t> width_;
  Input<float> length_penalty_;
  Input<std::int32_t> early_stopping_, max_tokens_;
  Lists end_ids_;
};

void step(Handle rows_object, bool logprobs, std::int64_t requests, std::int32_t max_width,
          Handle row_begins, Handle live_parts, Handle parameter_parts, Handle next_parts,
          Handle pool_parts, Handle history_parts, std::uint64_t stream, Handle allocate) {
  const Rows rows = rows_of(logprobs ? "logprobs" : "logits", rows_object);
  Place place = place_of(rows.array, stream, nb::none());
  const std::int64_t places = requests * max_width;
  const Input<std::int64_t> begins("row_begins", row_begins, place);
  const Live live(live_parts, place);
  const Parameters parameters(parameter_parts, place);
  const Next next(next_parts, requests, places, place);
  const Pool pool(pool_parts, requests, places, place);
  const History history(history_parts, places, place);

  BeamStepRequest request;
  request.rows = rows.view;
  request.input = logprobs ? BeamInput::logprobs : BeamInput::logits;
  request.requests = requests;
  request.max_width = max_width;
  request.row_begins = begins.view;
  request.live_beams = live.beams.view;
  request.scores = live.scores.view;
  request.generated = live.generated.view;
  request.states = live.states.view;
  request.parameters = parameters.view;
  BeamStepResult result;
  next.into(result);
  result.pool = pool.view;
  result.history = history.view;
  bring_workspace(place, allocate, cuda::workspace_bytes(request));
  run(place, [&](const auto& how) { return beam_search_step(request, result, how); });
}

void best(std::int64_t requests, std::int32_t max_width, std::int32_t count, Handle pool_parts,
          Handle history_parts, Handle live_parts, Handle length_penalty, Handle tokens,
          Handle lengths, Handle scores, Handle cumulative, Handle statuses, std::uint64_t stream) {
  const Input<float> penalty("length_penalty", length_penalty);
  const Place place = place_of(penalty.array(), stream, nb::none());
  const std::int64_t places = requests * max_width;
  const Pool pool(pool_parts, requests, places, place);
  const History history(history_parts, places, place);
  const Live live(live_parts, place);
  const std::int64_t wanted = requests * count;

  BeamResultRequest request;
  request.requests = requests;
  request.max_width = max_width;
  request.best = count;
  request.pool = pool.view;
  request.history = history.view;
  request.live_beams = live.beams.view;
  request.scores = live.scores.view;
  request.generated = live.generated.view;
  request.states = live.states.view;
  request.length_penalty = {penalty.view.data, penalty.view.size};
  const Output<std::int32_t> ids("tokens", tokens, wanted * history.view.max_steps, place);
  const Output<std::int32_t> length("lengths", lengths, wanted, place);
  const Output<float> score("scores", scores, wanted, place);
  const Output<float> sum("cumulative", cumulative, wanted, place);
  const Statuses status("statuses", statuses, requests, place);
  const BeamSequences result{ids.view, length.view, score.view, sum.view, status.view};
  run(
      place, [&](const fairdraw::Execution&) { return beam_search_result(request, result); },
      [&](const cuda::Execution& how) {
        return cuda::beam_search_result(request, result, how.stream);
      });
}

}  // namespace

void bind_beam_search(nb::module_& module) {
  define(module, "beam_search_step", &step, "rows", "logprobs", "requests", "max_width",
         "row_begins", "live", "parameters", "next", "pool", "history", "stream", "allocate");
  define(module, "beam_search_result", &best, "requests", "max_width", "best", "pool", "history",
         "live", "length_penalty", "tokens", "lengths", "scores", "cumulative", "statuses",
         "stream");
  module.attr("MAX_BEAM_WIDTH") = kMaxBeamWidth;
}

}  // namespace fairdraw::python
