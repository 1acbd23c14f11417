// A language model of four tokens for serving loops, whose distribution can be computed exactly.
// Triples of tokens judge the draws of these loops.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <vector>

#include "fairdraw/speculative.h"
#include "harness/statistics/statistics.h"
#include "reference/speculation/speculation_distribution.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {

constexpr std::int64_t kSmallVocab = 4;
using Logits = std::array<float, kSmallVocab>;

/// Returns a model's logits after a prefix, which a linear congruential generator derives from its
/// tokens. Only the last three tokens of the prefix count, which suffices for triples.
inline Logits logits_behind(const std::vector<std::int32_t>& prefix, std::uint32_t model) {
  std::uint32_t state = model;
  for (const std::int32_t token : prefix) {
    state = state * 1664525U + 1013904223U + static_cast<std::uint32_t>(token) * 69069U;
  }
  Logits logits{};
  for (float& x : logits) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<float>(state >> 24) / 80;  // [0, 3.2)
  }
  return logits;
}

constexpr std::uint32_t kTarget = 5;
constexpr std::int64_t kLength = 3, kRequests = 20000;

/// Returns the target's filters: top_p is on, so that supports differ between rows, and top_k is
/// off, so that all four tokens can be drawn.
inline LawFilters target_filters() {
  LawFilters filters;
  filters.temperature = 0.8F;
  filters.top_p = 0.95F;
  return filters;
}

struct Drawn {
  std::vector<std::vector<std::int32_t>> tokens;
  std::int64_t drafts_that_stood = 0;
};

/// Expects the target's distribution in the results of `draw`, which draws kRequests sequences,
/// from a drafter and the first of their seeds.
template <class Drafters, class Draw>
void expect_triples_of_the_target(const Drafters& drafters, Draw draw) {
  const std::int64_t loops = is_reduced() ? 2 : 20;
  reference::RowParameters parameters;
  parameters.temperature = 0.8F;
  parameters.top_p = 0.95F;
  const reference::SequenceDistribution distribution = reference::sequences_of(
      [&](std::span<const std::int32_t> prefix) {
        return reference::integer_model(logits_behind({prefix.begin(), prefix.end()}, kTarget), {},
                                        parameters);
      },
      kLength);
  std::vector<double> probabilities;
  for (const auto& [tokens, probability] : distribution) {
    probabilities.push_back(probability.template convert_to<double>());
  }
  const double level = 1e-9 / static_cast<double>(std::size(drafters));
  for (const auto& drafter : drafters) {
    std::map<std::vector<std::int32_t>, std::uint64_t> seen;
    std::int64_t stood = 0;
    for (std::int64_t at = 0; at < loops; ++at) {
      const Drawn drawn = draw(drafter, static_cast<std::uint64_t>(at * kRequests));
      for (const auto& tokens : drawn.tokens) ++seen[{tokens.begin(), tokens.begin() + kLength}];
      stood += drawn.drafts_that_stood;
    }
    std::vector<std::uint64_t> counts;
    for (const auto& [tokens, probability] : distribution) {
      counts.push_back(seen[tokens]);
      seen.erase(tokens);
    }
    EXPECT_TRUE(seen.empty()) << drafter.name << ": sequences that the target excludes";
    EXPECT_GE(statistics::goodness_of_fit(counts, probabilities).g_p_bound, level) << drafter.name;
    EXPECT_GT(stood, loops * kRequests / 4) << drafter.name << ": drafts are hardly ever accepted";
  }
}

}  // namespace fairdraw::suites
