#include "harness/inputs/processing_steps.h"

#include <algorithm>

namespace fairdraw::harness {
namespace {

using reference::RowProcessing;

constexpr ProcessingStep kSteps[] = {
    {"repetition_penalty", "repetition penalty",
     [](RowProcessing& p) { p.repetition_penalty = 1; }},
    {"frequency_penalty", "frequency penalty", [](RowProcessing& p) { p.frequency_penalty = 0; }},
    {"presence_penalty", "presence penalty", [](RowProcessing& p) { p.presence_penalty = 0; }},
    {"bias", "logit bias", [](RowProcessing& p) { p.biases.clear(); }},
    {"min_tokens", "minimum tokens", [](RowProcessing& p) { p.stop_ids.clear(); }},
    {"bad_words", "bad words",
     [](RowProcessing& p) { p.bad_words.clear(), p.bad_word_lengths.clear(); }},
    {"allowed_ids", "allowed ids", [](RowProcessing& p) { p.allowed_ids.clear(); }},
    {"top_n_sigma", "top_n_sigma", [](RowProcessing& p) { p.top_n_sigma = 0; }},
    {"typical_p", "typical_p", [](RowProcessing& p) { p.typical_p = 1; }},
    {"epsilon_cutoff", "epsilon_cutoff", [](RowProcessing& p) { p.epsilon_cutoff = 0; }},
    {"eta_cutoff", "eta_cutoff", [](RowProcessing& p) { p.eta_cutoff = 0; }},
    {"p_less", "p_less", [](RowProcessing& p) { p.p_less = 0; }},
    {"top_h", "top_h", [](RowProcessing& p) { p.top_h = 1; }},
    {"xtc", "xtc", [](RowProcessing& p) { p.xtc_probability = 0; }},
    {"chain_temperature", "chain_temperature", [](RowProcessing& p) { p.chain_temperature = 1; }},
    {"chain_top_k", "chain_top_k", [](RowProcessing& p) { p.chain_top_k = 0; }},
    {"chain_top_p", "chain_top_p", [](RowProcessing& p) { p.chain_top_p = 1; }},
    {"chain_min_p", "chain_min_p", [](RowProcessing& p) { p.chain_min_p = 0; }},
    {"adaptive_p", "adaptive_p", [](RowProcessing& p) { p.adaptive_target = -1; }},
    {"filter_chain", "filter_chain", [](RowProcessing& p) { p.filter_chain = 0; }},
    {"dynatemp", "dynamic temperature", [](RowProcessing& p) { p.dynatemp_range = 0; }},
    {"penalty_window", "penalty_window", [](RowProcessing& p) { p.penalty_window = -1; }},
    {"counts_of_prompt", "counts_of_prompt", [](RowProcessing& p) { p.counts_of_prompt = 0; }},
    {"no_repeat_ngram_size", "no_repeat_ngram_size",
     [](RowProcessing& p) { p.no_repeat_ngram_size = 0; }},
    {"dry", "penalty of repetitions", [](RowProcessing& p) { p.dry_multiplier = 0; }},
    {"dry_breakers", "penalty of repetitions", [](RowProcessing& p) { p.dry_breakers.clear(); }},
    {"forced_tokens", "forced tokens", [](RowProcessing& p) { p.forced_tokens.clear(); }},
    {"top_p_decay", "top_p_decay", [](RowProcessing& p) { p.top_p_decay = 1; }},
};

}  // namespace

std::span<const ProcessingStep> processing_steps() { return kSteps; }

void leave_out(std::span<const std::string> names, RowProcessing& row) {
  for (const ProcessingStep& step : kSteps) {
    if (std::ranges::find(names, step.name) != names.end()) step.leave_out(row);
  }
}

}  // namespace fairdraw::harness
