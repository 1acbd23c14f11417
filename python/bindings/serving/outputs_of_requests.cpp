// Binds the operations of fairdraw/stop_criteria.h, fairdraw/parallel_sampling.h and
// fairdraw/mirostat.h for the Python files of the same names.
#include "fairdraw/adaptive_p.h"
#include "fairdraw/cuda_stop_criteria.h"
#include "fairdraw/mirostat.h"
#include "fairdraw/parallel_sampling.h"
#include "fairdraw/stop_criteria.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"

namespace fairdraw::python {
namespace {

template <class T>
PerRequest<T> each(View<const T> values) {
  return {values.data, values.size};
}

void stop(const Named& given) {
  const Input<std::int32_t> tokens("step_tokens", given["step_tokens"]);
  const Place place = place_of(given, tokens.array());
  const Named criteria("criteria", given["criteria"]);
  const Named results("results", given["results"]);
  const Lists history("output", given["output"], place);
  const Lists stop_ids("stop_ids", criteria["stop_ids"], place);
  const Lists sequences("stop_sequences", criteria["stop_sequences"], place);
  const Lists sequence_lengths("stop_sequences", criteria["stop_sequence_lengths"], place);

  StopRequest request;
  request.requests = given.as<std::int64_t>("requests");
  request.vocab = given.as<std::int64_t>("vocab");
  request.step_tokens = tokens.view;
  request.tokens_per_step = given.as<std::int64_t>("tokens_per_step");
  request.output = history.view;
  request.output_lengths = given.input<std::int32_t>("output_lengths", place);
  request.criteria.eos_id = each(criteria.input<std::int32_t>("eos_id", place));
  request.criteria.ignore_eos = each(criteria.input<std::uint8_t>("ignore_eos", place));
  request.criteria.stop_ids = stop_ids.view;
  request.criteria.stop_sequences = sequences.view;
  request.criteria.stop_sequence_lengths = sequence_lengths.view;
  request.criteria.min_tokens = each(criteria.input<std::int32_t>("min_tokens", place));
  request.criteria.max_tokens = each(criteria.input<std::int32_t>("max_tokens", place));
  request.active = given.input<std::uint8_t>("active", place);
  criteria.expect_all_read();

  const std::int64_t count = request.requests;
  StopResult result;
  result.reasons = results.output<FinishReason, std::int32_t>("reasons", count, place);
  result.kept = results.output<std::int32_t>("kept", count, place);
  result.matched = results.output<std::int32_t>("matched", count, place);
  result.matched_lengths = results.output<std::int32_t>("matched_lengths", count, place);
  result.output_lengths = results.output<std::int32_t>("output_lengths", count, place);
  result.statuses = results.statuses(count, place);
  results.expect_all_read();
  run(
      given, place, [&](const fairdraw::Execution&) { return check_stop(request, result); },
      [&](const cuda::Execution& how) { return cuda::check_stop(request, result, how.stream); });
}

void seeds_of_children(const nb::object& seeds, std::int32_t n, bool seed_plus_index,
                       std::int64_t prompts, const nb::object& children) {
  const Input<std::uint64_t> parents("seeds", seeds, Place());
  // The operation refuses n < 1 later. Before that, a wrong n must not set the size of an array.
  const Output<std::uint64_t, std::int64_t> out("children", children, prompts * (n < 1 ? 0 : n),
                                                Place());
  const ChildSeedRule rule =
      seed_plus_index ? ChildSeedRule::seed_plus_index : ChildSeedRule::threefry;
  run_on_host([&] { return child_seeds(parents.view, n, out.view, rule); });
}

std::int32_t top_k_of_mirostat(double tau, double eta, double mu, const nb::object& largest,
                               std::int64_t vocab) {
  const Input<float> values("largest", largest, Place());
  std::int32_t top_k = 0;
  run_on_host([&] { return mirostat_top_k({tau, eta, mu}, values.view, vocab, top_k); });
  return top_k;
}

double mu_after_token(double tau, double eta, double mu, float logprob_filtered) {
  Mirostat state{tau, eta, mu};
  run_on_host([&] { return observe_surprise(state, logprob_filtered); });
  return state.mu;
}

double mean_after_token(double target, double decay, double mean, float probability) {
  AdaptiveP state{target, decay, mean};
  run_on_host([&] { return observe_probability(state, probability); });
  return state.mean;
}

std::uint64_t seed_of_child(std::uint64_t seed, std::uint64_t child, bool seed_plus_index) {
  return child_seed(seed, child,
                    seed_plus_index ? ChildSeedRule::seed_plus_index : ChildSeedRule::threefry);
}

void add_step(const nb::object& logprobs, std::int64_t tokens_per_step, const nb::object& kept,
              std::int64_t outputs, const nb::object& cumulative, const nb::object& statuses) {
  const Input<float> values("logprobs", logprobs, Place());
  const Input<std::int32_t> count("kept", kept, Place());
  const Output<double> sums("cumulative", cumulative, outputs, Place());
  const Statuses status("statuses", statuses, outputs, Place());
  const LogprobStep step{values.view, tokens_per_step, count.view};
  run_on_host([&] { return add_logprobs(step, sums.view, status.view); });
}

void choose(const Named& given) {
  const Place host;
  BestOfRequest request;
  request.prompts = given.as<std::int64_t>("prompts");
  request.candidates = given.as<std::int32_t>("candidates");
  request.n = given.as<std::int32_t>("n");
  request.cumulative = given.input<double>("cumulative", host);
  request.lengths = given.input<std::int32_t>("lengths", host);
  request.length_penalty = each(given.input<double>("length_penalty", host));
  request.statuses = given.input<RowStatus, std::int32_t>("statuses", host);
  const std::int64_t wanted = request.prompts * (request.n < 1 ? 0 : request.n);
  const BestOfResult result{
      given.output<std::int32_t>("chosen", wanted, host),
      given.output<double>("scores", wanted, host),
      given.output<RowStatus, std::int32_t>("prompt_statuses", request.prompts, host)};
  given.expect_all_read();
  run_on_host([&] { return best_of(request, result); });
}

}  // namespace

void bind_outputs_of_requests(nb::module_& module) {
  define(module, "check_stop", &stop);
  module.def("child_seeds", &seeds_of_children);
  module.def("child_seed", &seed_of_child);
  module.def("add_logprobs", &add_step, nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
             nb::arg(), nb::arg());
  define(module, "best_of", &choose);
  module.def("mirostat_cutoff",
             [](double tau, double eta, double mu) { return mirostat_cutoff({tau, eta, mu}); });
  module.def("mirostat_top_k", &top_k_of_mirostat);
  module.def("mirostat_mu", &mu_after_token);
  module.def("adaptive_target", [](double target, double decay, double mean) {
    return adapted_target({target, decay, mean});
  });
  module.def("adaptive_mean", &mean_after_token);
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
