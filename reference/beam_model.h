// Beam search, written a second time: all candidates of a step in a list, sorted; and, for tiny
// vocabularies, no search at all but every sequence there is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fairdraw/beam_search.h"

namespace fairdraw::reference {

using TokenSequence = std::vector<std::int32_t>;

/// A sequence with its scores: live where its last token is no end id.
struct BeamHypothesis {
  TokenSequence tokens;
  float cumulative = 0;
  float score = 0;  ///< normalised; of live beams not set until the end
  bool operator==(const BeamHypothesis&) const = default;
};

struct BeamRules {
  std::int32_t width = 1;
  float length_penalty = 0;
  std::int32_t early_stopping = 1;
  std::int32_t max_tokens = 1;
  std::vector<std::int32_t> end_ids;
};

/// One request. It begins with one live beam without tokens.
struct BeamModelState {
  std::vector<BeamHypothesis> live = {{}};
  std::vector<std::int32_t> parents;  ///< of live beams, among those of the step before
  std::vector<BeamHypothesis> pool;   ///< best first
  BeamState state = BeamState::live;
  RowStatus status = RowStatus::ok;  ///< of the last step
};

/// Log-probabilities of a row of logits, as beam search takes them: integer weights, one rounding.
/// -inf where the logit is. The row may hold no NaN and no +inf.
std::vector<float> beam_logprobs(std::span<const float> logits);

/// One step: row b holds the log-probabilities of live beam b. A request that is not live, or has
/// no candidate, is left as it is (except for the status).
void beam_step_model(BeamModelState& state, const std::vector<std::vector<float>>& logprobs,
                     const BeamRules& rules);

/// The best sequences after the last step.
std::vector<BeamHypothesis> beam_result_model(const BeamModelState& state, std::size_t best,
                                              float length_penalty);

/// Log-probabilities of the next token after a sequence.
using LanguageModel = std::function<std::vector<float>(const TokenSequence&)>;

/// Every sequence that ends with an end id within max_tokens, or has max_tokens: the `best` of them
/// by normalised score, equal ones in the order of enumeration (by length, then by ids).
std::vector<BeamHypothesis> all_sequences(const LanguageModel& model, const BeamRules& rules,
                                          std::size_t best);

}  // namespace fairdraw::reference
