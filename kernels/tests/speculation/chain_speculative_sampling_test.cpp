// Speculative sampling gives the target's distribution, whatever the draft: first and second
// tokens.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "common/philox.h"
#include "fairdraw/sampling.h"
#include "harness/statistics/statistics.h"
#include "reference/integer_model.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/speculative_rows.h"

namespace fairdraw::suites {
namespace {

TEST(SpeculativeDistribution, FirstAndSecondTokensFollowTheTargetWhateverTheDraft) {
  const std::uint64_t chains = is_reduced() ? 20000 : 200000;
  // 1e-9 over four drafts and two statistics each.
  const double level = 1e-9 / (4 * 2);
  for (const Rows& draft : kDraftRows) {
    const reference::IntegerRow first = distribution_of(draft, 0);
    const reference::IntegerRow second = distribution_of(draft, 1);
    std::vector<std::uint64_t> tokens_seen(kVocab);
    std::vector<std::uint64_t> second_seen(kVocab);
    std::uint64_t seconds = 0;
    for (std::uint64_t seed = 0; seed < chains; ++seed) {
      // Drafted with the request's own seed, at the offsets of its positions, as an engine does.
      const std::vector<std::int32_t> drafted = {
          first.token_for(random_word(seed, 0, Purpose::draft, 0)),
          second.token_for(random_word(seed, 1, Purpose::draft, 0))};
      ChainSpeculativeRequest request;
      request.draft_probs = {draft.data(), DType::float32, kDrafts, kVocab, kVocab};
      request.draft_tokens = {drafted.data(), kDrafts};
      request.target_probs = {kTarget.data(), DType::float32, kDrafts + 1, kVocab, kVocab};
      request.batch = 1;
      request.num_draft_tokens = kDrafts;
      request.seed = {&seed, 1};
      std::vector<std::int32_t> out(kDrafts + 1);
      ASSERT_FALSE(
          chain_speculative_sampling(request, {{out.data(), kDrafts + 1}, {}, {}, {}}, {}));
      ++tokens_seen[static_cast<std::size_t>(out[0])];
      if (out[1] < 0) continue;  // the chain ended at the first position
      ++seconds;
      ++second_seen[static_cast<std::size_t>(out[1])];
    }
    const reference::IntegerRow target = distribution_of(kTarget, 0);
    const reference::IntegerRow next = distribution_of(kTarget, 1);
    EXPECT_EQ(tokens_seen[4], 0U);  // of probability 0 in the target
    std::vector<std::uint64_t> counts(tokens_seen.begin(), tokens_seen.end() - 1);
    std::vector<double> distribution;
    for (std::size_t t = 0; t + 1 < kVocab; ++t) {
      distribution.push_back(static_cast<double>(target.speculation_weight[t]) /
                             static_cast<double>(target.speculation_total()));
    }
    EXPECT_GE(statistics::goodness_of_fit(counts, distribution).g_p_bound, level);
    if (seconds == 0) continue;
    // The second token given that there is one: the target's second row, whatever the first was.
    std::vector<double> second_distribution;
    for (std::size_t t = 0; t < kVocab; ++t) {
      second_distribution.push_back(static_cast<double>(next.speculation_weight[t]) /
                                    static_cast<double>(next.speculation_total()));
    }
    EXPECT_GE(statistics::goodness_of_fit(second_seen, second_distribution).g_p_bound, level)
        << "of " << seconds << " second tokens";
  }
}

}  // namespace
}  // namespace fairdraw::suites
