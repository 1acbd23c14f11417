#include "harness/run/evidence/cause_places.h"

#include <algorithm>
#include <iterator>

#include "harness/run/evidence/cause_texts.h"

namespace fairdraw::harness {
namespace {

// place_of() looks up whole names before their causes.
constexpr CausePlace kPlaces[] = {
    {"memory", Step::call, Kind::cause},
    {"the sampler itself stops", Step::call, Kind::cause},
    // No other kind of case shows this cause.
    {"follows the caller's FTZ", Step::call, Kind::cause},
    {"a call is refused", Step::call, Kind::cause},
    {"results are not written", Step::call, Kind::cause},
    {"bad values", Step::rows, Kind::symptom},
    {"repetition penalty", Step::processing, Kind::cause},
    {"frequency penalty", Step::processing, Kind::cause},
    {"presence penalty", Step::processing, Kind::cause},
    {"logit bias", Step::processing, Kind::cause},
    {"minimum tokens", Step::processing, Kind::cause},
    {"bad words", Step::processing, Kind::cause},
    {"allowed ids", Step::processing, Kind::cause},
    {"top_n_sigma", Step::processing, Kind::cause},
    {"typical_p", Step::processing, Kind::cause},
    {"epsilon_cutoff", Step::processing, Kind::cause},
    {"eta_cutoff", Step::processing, Kind::cause},
    {"p_less", Step::processing, Kind::cause},
    {"top_h", Step::processing, Kind::cause},
    {"xtc", Step::processing, Kind::cause},
    {"chain_temperature", Step::processing, Kind::cause},
    {"chain_top_k", Step::processing, Kind::cause},
    {"chain_top_p", Step::processing, Kind::cause},
    {"chain_min_p", Step::processing, Kind::cause},
    {"adaptive_p", Step::processing, Kind::cause},
    {"filter_chain", Step::processing, Kind::cause},
    {"dynamic temperature", Step::processing, Kind::cause},
    {"penalty_window", Step::processing, Kind::cause},
    {"counts_of_prompt", Step::processing, Kind::cause},
    {"no_repeat_ngram_size", Step::processing, Kind::cause},
    {"penalty of repetitions", Step::processing, Kind::cause},
    {"forced tokens", Step::processing, Kind::cause},
    {"top_p_decay", Step::processing, Kind::cause},
    {"histories", Step::processing, Kind::cause},
    {"processing", Step::processing, Kind::symptom},
    {"temperature: the distribution is too steep", Step::draw, Kind::symptom},
    {"temperature: the distribution is too flat", Step::draw, Kind::symptom},
    {"temperature", Step::filters, Kind::cause},
    {"top_k", Step::filters, Kind::cause},
    {"top_p", Step::filters, Kind::cause},
    {"min_p", Step::filters, Kind::cause},
    {"ties", Step::filters, Kind::symptom},
    {"bitmask", Step::filters, Kind::cause},
    {"boundary of the mask", Step::filters, Kind::symptom},
    {"mask", Step::filters, Kind::symptom},
    {"support size", Step::filters, Kind::cause},
    {"truncation", Step::draw, Kind::symptom},
    {"out of support: no token of the vocabulary", Step::draw, Kind::cause},
    {"out of support", Step::draw, Kind::symptom},
    {"the draw leaves its own mask", Step::draw, Kind::symptom},
    {"lost tokens", Step::draw, Kind::symptom},
    {"ends of intervals", Step::draw, Kind::symptom},
    {"numeric precision", Step::draw, Kind::symptom},
    {"shared random bits", Step::words, Kind::cause},
    {"seeds", Step::words, Kind::cause},
    {"counters", Step::words, Kind::cause},
    {"numbers of a draw", Step::words, Kind::symptom},
    {"batches: rows of padding", Step::rows, Kind::cause},
    {"batches", Step::batch, Kind::cause},
    {"batch dependence: a bad row changes its neighbours", Step::rows, Kind::symptom},
    {"batch dependence or state", Step::batch, Kind::symptom},
    {"batch dependence", Step::batch, Kind::cause},
    {"requested results", Step::batch, Kind::cause},
    {"shapes and batches", Step::batch, Kind::symptom},
    {"log-probabilities: an output without a token has values", Step::reports, Kind::symptom},
    {"log-probabilities: values", Step::reports, Kind::symptom},
    {"log-probabilities: values of whole rows", Step::reports, Kind::symptom},
    {"log-probabilities: values of the drawn tokens", Step::reports, Kind::symptom},
    {"log-probabilities: the largest tokens", Step::reports, Kind::symptom},
    {"log-probabilities: ranks", Step::reports, Kind::symptom},
    {"log-probabilities", Step::reports, Kind::cause},
    {"speculative decoding", Step::speculation, Kind::symptom},
    {"row operations", Step::operations, Kind::symptom},
    {"marks", Step::marks, Kind::cause},
};

}  // namespace

CausePlace place_of(std::string_view hint) {
  if (hint.starts_with(kDefinition)) return {hint, Step::filters, Kind::cause};
  for (const std::string_view name : {hint, cause_of(hint)}) {
    const auto* const found = std::ranges::find(kPlaces, name, &CausePlace::name);
    if (found != std::end(kPlaces)) return *found;
  }
  // The hint of another version explains only cases that name it.
  return {hint, Step::operations, Kind::cause};
}

}  // namespace fairdraw::harness
