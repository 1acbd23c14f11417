// Speculative sampling must follow the target's distribution, whatever the draft: the test counts
// first and second tokens. The tokens must also equal those of the integer model.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/philox.h"
#include "fairdraw/speculative.h"
#include "harness/statistics/statistics.h"
#include "reference/integer_model.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/chain_calls.h"
#include "tests/speculation/speculative_rows.h"

namespace fairdraw::suites {
namespace {

TEST(SpeculativeDistribution, FirstAndSecondTokensFollowTheTargetWhateverTheDraft) {
  const std::uint64_t chains = is_reduced() ? 20000 : 200000;
  // The test may fail by chance with a probability of 1e-9, over four drafts with two statistics
  // each.
  const double level = 1e-9 / (4 * 2);
  for (const Rows& draft : kDraftRows) {
    const reference::IntegerRow first = distribution_of(draft, 0);
    const reference::IntegerRow second = distribution_of(draft, 1);
    std::vector<std::uint64_t> tokens_seen(kVocab);
    std::vector<std::uint64_t> second_seen(kVocab);
    std::uint64_t seconds = 0;
    for (std::uint64_t seed = 0; seed < chains; ++seed) {
      // The tokens are drafted with the request's own seed, at the offsets of their positions, as
      // in an engine.
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
      if (out[1] < 0) continue;  // the chain has ended at the first position
      ++seconds;
      ++second_seen[static_cast<std::size_t>(out[1])];
    }
    const reference::IntegerRow target = distribution_of(kTarget, 0);
    const reference::IntegerRow next = distribution_of(kTarget, 1);
    EXPECT_EQ(tokens_seen[4], 0U);  // this token's probability in the target is 0
    std::vector<std::uint64_t> counts(tokens_seen.begin(), tokens_seen.end() - 1);
    std::vector<double> distribution;
    for (std::size_t t = 0; t + 1 < kVocab; ++t) {
      distribution.push_back(static_cast<double>(target.speculation_weight[t]) /
                             static_cast<double>(target.speculation_total()));
    }
    EXPECT_GE(statistics::goodness_of_fit(counts, distribution).g_p_bound, level);
    if (seconds == 0) continue;
    // A second token, if there is one, follows the target's second row, whatever the first token
    // is.
    std::vector<double> second_distribution;
    for (std::size_t t = 0; t < kVocab; ++t) {
      second_distribution.push_back(static_cast<double>(next.speculation_weight[t]) /
                                    static_cast<double>(next.speculation_total()));
    }
    EXPECT_GE(statistics::goodness_of_fit(second_seen, second_distribution).g_p_bound, level)
        << "of " << seconds << " second tokens";
  }
}

TEST(SpeculativeChains, EqualTheIntegerModel) {
  for (std::uint64_t i = 0; i < budget(6000); ++i) {
    std::mt19937_64 random(900000 + i);
    const std::size_t vocab = random() % 4 == 0 ? 128 + random() % 200 : 1 + random() % 40;
    const std::size_t n = random() % 5;
    std::vector<float> draft;
    std::vector<float> target_rows;
    std::vector<std::int32_t> tokens;
    for (std::size_t position = 0; position <= n; ++position) {
      const std::vector<float> p = random_probs(random(), vocab);
      target_rows.insert(target_rows.end(), p.begin(), p.end());
      if (position == n) break;
      // Drafts near the target are mostly accepted, and unrelated drafts mostly rejected; both must
      // be common.
      const std::vector<float> q = random() % 2 == 0 ? p : random_probs(random(), vocab);
      draft.insert(draft.end(), q.begin(), q.end());
      tokens.push_back(static_cast<std::int32_t>(random() % vocab));
      if (random() % 200 == 0) tokens.back() = static_cast<std::int32_t>(vocab);
    }
    const std::uint64_t seed = random();
    const std::uint64_t offset = random() - 2;  // in some calls the offset wraps around
    std::vector<std::uint64_t> accept_words;
    std::vector<std::uint64_t> recover_words;
    for (std::size_t position = 0; position < n; ++position) {
      accept_words.push_back(random_word(seed, offset + position, Purpose::accept, 0));
      recover_words.push_back(random_word(seed, offset + position, Purpose::recover, 0));
    }
    const reference::ChainOutcome expected = reference::chain_speculative_model(
        draft, tokens, target_rows, vocab, accept_words, recover_words,
        random_word(seed, offset + n, Purpose::bonus, 0));
    const auto rows = static_cast<std::int64_t>(n);
    const auto width = static_cast<std::int64_t>(vocab);
    for (const CpuTarget target : available_targets()) {
      ChainSpeculativeRequest request;
      request.draft_probs = {draft.data(), DType::float32, rows, width, width};
      request.draft_tokens = {tokens.data(), rows};
      request.target_probs = {target_rows.data(), DType::float32, rows + 1, width, width};
      request.batch = 1;
      request.num_draft_tokens = rows;
      request.seed = {&seed, 1};
      request.offset = {&offset, 1};
      std::vector<std::int32_t> out(n + 1, -7);
      std::int32_t accepted = -7;
      std::int32_t emitted = -7;
      RowStatus status = RowStatus::inactive;
      ASSERT_FALSE(chain_speculative_sampling(
          request, {{out.data(), rows + 1}, {&accepted, 1}, {&emitted, 1}, {&status, 1}},
          {target, 1}));
      ASSERT_EQ(status, expected.status) << "chain " << i;
      if (status != RowStatus::ok) {
        ASSERT_EQ(out, std::vector<std::int32_t>(n + 1, -1));
        continue;
      }
      ASSERT_EQ(out, expected.tokens) << "chain " << i << " on " << to_string(target);
      ASSERT_EQ(accepted, expected.accepted) << "chain " << i;
      ASSERT_EQ(emitted, expected.emitted) << "chain " << i;
    }
  }
}

TEST(SpeculativeChains, NameTheirOwnFields) {
  const std::vector<float> probs = {0.5F, 0.5F};
  ChainSpeculativeRequest chain;
  chain.target_probs = {probs.data(), DType::float32, 1, 2, 2};
  chain.batch = 1;
  chain.num_draft_tokens = 1;
  const Error short_target = chain_speculative_sampling(chain, {});
  EXPECT_NE(short_target.message.find("length of target_probs is 1; allowed: 2"), std::string::npos)
      << short_target.message;
}

TEST(SpeculativeChains, RequestsWithoutASeedHaveSeedsOfTheirOwn) {
  EXPECT_NE(TargetRows{}.seed.scalar, TargetRows{}.seed.scalar);
  EXPECT_NE(ChainSpeculativeRequest{}.seed.scalar, ChainSpeculativeRequest{}.seed.scalar);
}

// The call is rejected without a GPU because there is none, and with a GPU because the memory is
// host memory.
TEST(SpeculativeChains, OnAGpuHostMemoryIsRefusedAndNothingIsWritten) {
  HostArrays arrays;
  const ChainCall chains = random_chain_call(3, 20);
  ChainOutputs written(chains);
  const Error error = run_chain(chains, written, arrays, cuda::Execution{});
  EXPECT_EQ(error.code,
            cuda::is_available() ? ErrorCode::invalid_argument : ErrorCode::unsupported);
  EXPECT_EQ(written.tokens, ChainOutputs(chains).tokens);
  EXPECT_EQ(written.statuses, ChainOutputs(chains).statuses);
}

}  // namespace
}  // namespace fairdraw::suites
