#include "tests/serving/beam_problems.h"

#include <cmath>
#include <limits>

namespace fairdraw::suites {

std::vector<float> hashed_row(std::uint64_t seed, const TokenSequence& sequence, std::size_t vocab,
                              bool ties, bool bans) {
  std::uint64_t hash = seed;
  for (const std::int32_t token : sequence) {
    hash = (hash ^ static_cast<std::uint64_t>(token + 1)) * 0x9e3779b97f4a7c15U;
  }
  std::mt19937_64 random(hash);
  std::vector<float> row;
  for (std::size_t t = 0; t < vocab; ++t) {
    const auto value = static_cast<float>(random() >> 40) * 0x1p-22F;  // [0, 4)
    row.push_back(bans && random() % 8 == 0 ? -std::numeric_limits<float>::infinity()
                  : ties                    ? std::floor(value)
                                            : value);
  }
  row[random() % vocab] = 1.0F;  // so that at least one token is not banned
  return row;
}

BeamProblem random_problem(std::mt19937_64& random, std::size_t vocab) {
  BeamRules rules;
  rules.width = static_cast<std::int32_t>(1 + random() % 6);
  rules.max_tokens = static_cast<std::int32_t>(1 + random() % 8);
  rules.early_stopping = static_cast<std::int32_t>(random() % 3);
  const float penalties[] = {0.0F, 1.0F, 0.6F, 2.0F, -0.5F};
  rules.length_penalty = penalties[random() % 5];
  for (std::uint64_t i = random() % 3; i > 0; --i) {
    rules.end_ids.push_back(static_cast<std::int32_t>(random() % vocab));
  }
  const std::uint64_t seed = random();
  const bool ties = random() % 2 == 0;
  return {rules, [seed, vocab, ties](const TokenSequence& sequence) {
            return hashed_row(seed, sequence, vocab, ties);
          }};
}

BeamRules rules_of(std::int32_t width, std::int32_t max_tokens, std::vector<std::int32_t> end_ids) {
  BeamRules rules;
  rules.width = width;
  rules.max_tokens = max_tokens;
  rules.end_ids = std::move(end_ids);
  return rules;
}

BeamProblem problem_of(const BeamRules& rules,
                       const std::function<std::vector<float>(std::size_t, std::int32_t)>& row) {
  return {rules, [row](const TokenSequence& sequence) {
            return row(sequence.size(), sequence.empty() ? -1 : sequence.back());
          }};
}

std::vector<BeamProblem> one(const BeamProblem& problem) { return {problem}; }

std::vector<float> row_by_hand(std::size_t length, std::int32_t last) {
  if (length == 0) return {-1, -2, -3};
  if (length == 1) {
    return last == 0 ? std::vector<float>{-1, -1, -0.5F} : std::vector<float>{-0.25F, -4, -4};
  }
  return last == 0 ? std::vector<float>{-2, -2, -0.5F} : std::vector<float>{-2, -1, -0.25F};
}

}  // namespace fairdraw::suites
