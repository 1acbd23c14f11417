// A second implementation of beam search: it sorts a list of all candidates of a step. For tiny
// vocabularies there is also an enumeration of every sequence, without any search.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fairdraw/beam_search.h"

namespace fairdraw::reference {

using TokenSequence = std::vector<std::int32_t>;

/// A beam, which is a sequence of tokens with its scores. The sequence is live if its last token is
/// not an end id.
struct BeamHypothesis {
  TokenSequence tokens;
  float cumulative = 0;
  float score = 0;  ///< normalised score; live beams have none until the end of the search
  bool operator==(const BeamHypothesis&) const = default;
};

struct BeamRules {
  std::int32_t width = 1;
  float length_penalty = 0;
  std::int32_t early_stopping = 1;
  std::int32_t max_tokens = 1;
  std::vector<std::int32_t> end_ids;
};

/// The state of the beam search for one request. The state begins with one live beam without
/// tokens.
struct BeamModelState {
  std::vector<BeamHypothesis> live = {{}};
  std::vector<std::int32_t> parents;  ///< parent of each live beam in the step before
  std::vector<BeamHypothesis> pool;   ///< best first
  BeamState state = BeamState::live;
  RowStatus status = RowStatus::ok;  ///< status of the request after the last step
};

/// Returns the log-probabilities of a row of logits as beam search uses them: computed from integer
/// weights and rounded once; -inf stays -inf. Precondition: the row has no NaN and no +inf.
std::vector<float> beam_logprobs(std::span<const float> logits);

/// Makes one step. Row b of the input holds the log-probabilities of live beam b. If the request is
/// not live or has no candidate, the step only changes its status.
void beam_step_model(BeamModelState& state, const std::vector<std::vector<float>>& logprobs,
                     const BeamRules& rules);

/// Returns the best sequences after the last step.
std::vector<BeamHypothesis> beam_result_model(const BeamModelState& state, std::size_t best,
                                              float length_penalty);

/// A function from a sequence to the log-probabilities of its next token.
using LanguageModel = std::function<std::vector<float>(const TokenSequence&)>;

/// Returns the `best` sequences by normalised score among all sequences that end with an end id
/// within max_tokens tokens, or that have max_tokens tokens. Sequences of equal score keep the
/// order of enumeration (by length, then by ids).
std::vector<BeamHypothesis> all_sequences(const LanguageModel& model, const BeamRules& rules,
                                          std::size_t best);

}  // namespace fairdraw::reference
