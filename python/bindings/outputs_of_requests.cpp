// The operations of fairdraw/stop_criteria.h and fairdraw/parallel_sampling.h, as the files of
// those names in fairdraw/ need them.
#include "fairdraw/cuda_stop_criteria.h"
#include "fairdraw/parallel_sampling.h"
#include "fairdraw/stop_criteria.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

template <class T>
PerRequest<T> each(const Input<T>& input) {
  return {input.view.data, input.view.size};
}

/// criteria: (eos_id, ignore_eos, stop_ids, stop_sequences, stop_sequence_lengths, min_tokens,
/// max_tokens), an entry a request; results: (reasons, kept, matched, matched_lengths,
/// output_lengths, statuses).
void stop(std::int64_t requests, std::int64_t tokens_per_step, std::int64_t vocab,
          Handle step_tokens, Handle output, Handle output_lengths, Handle criteria_parts,
          Handle active, Handle result_parts, std::uint64_t stream) {
  const Input<std::int32_t> tokens("step_tokens", step_tokens);
  const Place place = place_of(tokens.array(), stream, nb::none());
  const auto criteria = nb::cast<nb::tuple>(criteria_parts);
  const auto results = nb::cast<nb::tuple>(result_parts);
  const Lists history("output", output, place);
  const Input<std::int32_t> lengths("output_lengths", output_lengths, place);
  const Input<std::int32_t> eos_id("eos_id", criteria[0], place);
  const Input<std::uint8_t> ignore_eos("ignore_eos", criteria[1], place);
  const Lists stop_ids("stop_ids", criteria[2], place);
  const Lists sequences("stop_sequences", criteria[3], place);
  const Lists sequence_lengths("stop_sequences", criteria[4], place);
  const Input<std::int32_t> min_tokens("min_tokens", criteria[5], place);
  const Input<std::int32_t> max_tokens("max_tokens", criteria[6], place);
  const Input<std::uint8_t> flags("active", active, place);

  StopRequest request;
  request.requests = requests;
  request.vocab = vocab;
  request.step_tokens = tokens.view;
  request.tokens_per_step = tokens_per_step;
  request.output = history.view;
  request.output_lengths = lengths.view;
  request.criteria.eos_id = each(eos_id);
  request.criteria.ignore_eos = each(ignore_eos);
  request.criteria.stop_ids = stop_ids.view;
  request.criteria.stop_sequences = sequences.view;
  request.criteria.stop_sequence_lengths = sequence_lengths.view;
  request.criteria.min_tokens = each(min_tokens);
  request.criteria.max_tokens = each(max_tokens);
  request.active = flags.view;

  const Output<FinishReason, std::int32_t> reasons("reasons", results[0], requests, place);
  const Output<std::int32_t> kept("kept", results[1], requests, place);
  const Output<std::int32_t> matched("matched", results[2], requests, place);
  const Output<std::int32_t> matched_lengths("matched_lengths", results[3], requests, place);
  const Output<std::int32_t> after("output_lengths", results[4], requests, place);
  const Statuses statuses("statuses", results[5], requests, place);
  StopResult result;
  result.reasons = reasons.view;
  result.kept = kept.view;
  result.matched = matched.view;
  result.matched_lengths = matched_lengths.view;
  result.output_lengths = after.view;
  result.statuses = statuses.view;
  run(
      place, [&](const fairdraw::Execution&) { return check_stop(request, result); },
      [&](const cuda::Execution& how) { return cuda::check_stop(request, result, how.stream); });
}

void seeds_of_children(Handle seeds, std::int32_t n, bool seed_plus_index, std::int64_t prompts,
                       Handle children) {
  const Input<std::uint64_t> parents("seeds", seeds, Place());
  // A count below 1 is the operation's to refuse; here it only must not size an array.
  const Output<std::uint64_t, std::int64_t> out("children", children, prompts * (n < 1 ? 0 : n),
                                                Place());
  const ChildSeedRule rule =
      seed_plus_index ? ChildSeedRule::seed_plus_index : ChildSeedRule::threefry;
  run_on_host([&] { return child_seeds(parents.view, n, out.view, rule); });
}

std::uint64_t seed_of_child(std::uint64_t seed, std::uint64_t child, bool seed_plus_index) {
  return child_seed(seed, child,
                    seed_plus_index ? ChildSeedRule::seed_plus_index : ChildSeedRule::threefry);
}

void add_step(Handle logprobs, std::int64_t tokens_per_step, Handle kept, std::int64_t outputs,
              Handle cumulative, Handle statuses) {
  const Input<float> values("logprobs", logprobs, Place());
  const Input<std::int32_t> count("kept", kept, Place());
  const Output<double> sums("cumulative", cumulative, outputs, Place());
  const Statuses status("statuses", statuses, outputs, Place());
  const LogprobStep step{values.view, tokens_per_step, count.view};
  run_on_host([&] { return add_logprobs(step, sums.view, status.view); });
}

void choose(std::int64_t prompts, std::int32_t candidates, std::int32_t n, Handle cumulative,
            Handle lengths, Handle length_penalty, Handle statuses, Handle chosen, Handle scores,
            Handle prompt_statuses) {
  const Input<double> sums("cumulative", cumulative, Place());
  const Input<std::int32_t> length("lengths", lengths, Place());
  const Input<double> penalty("length_penalty", length_penalty, Place());
  const Input<RowStatus, std::int32_t> status("statuses", statuses, Place());
  BestOfRequest request;
  request.prompts = prompts;
  request.candidates = candidates;
  request.n = n;
  request.cumulative = sums.view;
  request.lengths = length.view;
  request.length_penalty = each(penalty);
  request.statuses = status.view;
  const std::int64_t wanted = prompts * (n < 1 ? 0 : n);
  const Output<std::int32_t> numbers("chosen", chosen, wanted, Place());
  const Output<double> score("scores", scores, wanted, Place());
  const Statuses result_status("statuses", prompt_statuses, prompts, Place());
  const BestOfResult result{numbers.view, score.view, result_status.view};
  run_on_host([&] { return best_of(request, result); });
}

}  // namespace

void bind_outputs_of_requests(nb::module_& module) {
  define(module, "check_stop", &stop, "requests", "tokens_per_step", "vocab", "step_tokens",
         "output", "output_lengths", "criteria", "active", "results", "stream");
  define(module, "child_seeds", &seeds_of_children, "seeds", "n", "seed_plus_index", "prompts",
         "children");
  define(module, "child_seed", &seed_of_child, "seed", "child", "seed_plus_index");
  define(module, "add_logprobs", &add_step, "logprobs", "tokens_per_step", "kept", "outputs",
         "cumulative", "statuses");
  define(module, "best_of", &choose, "prompts", "candidates", "n", "cumulative", "lengths",
         "length_penalty", "statuses", "chosen", "scores", "prompt_statuses");
  module.attr("NO_MAX_TOKENS") = kNoMaxTokens;
  module.def("finish_reasons", [] {
    nb::list names;
    for (int i = 0; i < kFinishReasons; ++i) {
      const auto reason = static_cast<FinishReason>(i);
      const char* const name = finish_reason_name(reason);
      names.append(nb::make_tuple(to_string(reason), name == nullptr ? "" : name));
    }
    return names;
  });
}

}  // namespace fairdraw::python
