// Beam search problems over language models whose rows are hashes of the generated tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "fairdraw/beam_search.h"
#include "reference/beam_model.h"

namespace fairdraw::suites {

using reference::BeamHypothesis;
using reference::BeamRules;
using reference::TokenSequence;

/// One request: its rules, and a function that gives the row of logits (or log-probabilities) after
/// a sequence.
struct BeamProblem {
  BeamRules rules;
  std::function<std::vector<float>(const TokenSequence&)> row;
};

/// Returns a row whose values are a function of the sequence. `ties`: the row has only four values;
/// `bans`: one value in eight is -inf.
std::vector<float> hashed_row(std::uint64_t seed, const TokenSequence& sequence, std::size_t vocab,
                              bool ties, bool bans = true);

/// Returns a problem over `vocab` tokens with rules of all kinds; half of the problems have ties.
BeamProblem random_problem(std::mt19937_64& random, std::size_t vocab);

/// Returns rules in which all other fields have their defaults.
BeamRules rules_of(std::int32_t width, std::int32_t max_tokens, std::vector<std::int32_t> end_ids);

/// Returns a problem whose row depends on the number of tokens before it and on the last of them
/// (-1 if there is none).
BeamProblem problem_of(const BeamRules& rules,
                       const std::function<std::vector<float>(std::size_t, std::int32_t)>& row);

std::vector<BeamProblem> one(const BeamProblem& problem);

/// Returns a row for three tokens, of which token 2 is the end id; sums of its log-probabilities
/// are exact.
std::vector<float> row_by_hand(std::size_t length, std::int32_t last);

}  // namespace fairdraw::suites
