// The tests cover the seeds of a prompt's outputs, sums of log-probabilities, and the choice of the
// best n outputs of a prompt.
#include "fairdraw/parallel_sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "fairdraw/sample.h"
#include "reference/threefry.h"

namespace fairdraw::suites {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kInfinityF = std::numeric_limits<float>::infinity();

// The blocks come from the file kat_vectors of Random123: threefry2x32 with 20 rounds, as counter,
// key and block.
TEST(ChildSeeds, TheReferenceGivesThePublishedBlocks) {
  const auto words = [](std::uint32_t low, std::uint32_t high) {
    return low | static_cast<std::uint64_t>(high) << 32;
  };
  EXPECT_EQ(reference::threefry2x32(0, 0), words(0x6b200159, 0x99ba4efe));
  EXPECT_EQ(reference::threefry2x32(~std::uint64_t{0}, ~std::uint64_t{0}),
            words(0x1cb996fc, 0xbb002be7));
  EXPECT_EQ(reference::threefry2x32(words(0x13198a2e, 0x03707344), words(0x243f6a88, 0x85a308d3)),
            words(0xc4923a9c, 0x483df7a0));
}

TEST(ChildSeeds, AgreeWithTheReference) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t seed = random();
    const std::uint64_t child = i % 3 == 0 ? random() : random() % 128;
    EXPECT_EQ(child_seed(seed, child), reference::child_seed_model(seed, child));
  }
}

TEST(ChildSeeds, ChildZeroIsTheParent) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{42}, ~std::uint64_t{0}}) {
    EXPECT_EQ(child_seed(seed, 0), seed);
    EXPECT_EQ(child_seed(seed, 0, ChildSeedRule::seed_plus_index), seed);
  }
}

// Consecutive parent seeds are tested, because users number their seeds. Among 256 * 1024 random
// values of 64 bits, two coincide with probability 2^-29. Children of one parent must never have
// equal seeds.
TEST(ChildSeeds, AreDistinct) {
  constexpr std::uint64_t kParents = 256;
  constexpr std::uint64_t kChildren = 1024;
  std::unordered_set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < kParents; ++seed) {
    for (std::uint64_t i = 0; i < kChildren; ++i) seen.insert(child_seed(seed, i));
  }
  EXPECT_EQ(seen.size(), kParents * kChildren);
  // vLLM's rule gives children of different parents equal seeds, so it is not the default.
  seen.clear();
  for (std::uint64_t seed = 0; seed < kParents; ++seed) {
    for (std::uint64_t i = 0; i < kChildren; ++i) {
      seen.insert(child_seed(seed, i, ChildSeedRule::seed_plus_index));
    }
  }
  EXPECT_EQ(seen.size(), kParents + kChildren - 1);
}

TEST(ChildSeeds, AllBitsOfSeedAndNumberCount) {
  const std::uint64_t seed = 0x0123456789abcdef;
  std::unordered_set<std::uint64_t> seen = {child_seed(seed, 1)};
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_TRUE(seen.insert(child_seed(seed ^ std::uint64_t{1} << bit, 1)).second) << bit;
    const std::uint64_t child = std::uint64_t{1} ^ std::uint64_t{1} << bit;
    EXPECT_TRUE(seen.insert(child_seed(seed, child)).second) << bit;
  }
}

TEST(ChildSeeds, VllmsRuleWrapsAround) {
  EXPECT_EQ(child_seed(~std::uint64_t{0}, 2, ChildSeedRule::seed_plus_index), 1U);
  EXPECT_EQ(child_seed(40, 2, ChildSeedRule::seed_plus_index), 42U);
}

TEST(ChildSeeds, OfABatch) {
  const std::vector<std::uint64_t> seeds = {7, 8};
  std::vector<std::uint64_t> children(6);
  ASSERT_FALSE(child_seeds({seeds.data(), 2}, 3, {children.data(), 6}));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(children[i], child_seed(seeds[i / 3], i % 3));
  const Error length = child_seeds({seeds.data(), 2}, 3, {children.data(), 5});
  EXPECT_NE(length.message.find("length of children is 5; allowed: 6"), std::string::npos);
  const Error none = child_seeds({seeds.data(), 2}, 0, {children.data(), 0});
  EXPECT_NE(none.message.find("n is 0; allowed: >= 1"), std::string::npos);
  const Error rule = child_seeds({seeds.data(), 2}, 3, {children.data(), 6}, ChildSeedRule{2});
  EXPECT_NE(rule.message.find("rule is 2"), std::string::npos);
}

// n outputs of one prompt are drawn in one call of `sample`: each is the same as when drawn alone,
// and as among more outputs.
TEST(ChildSeeds, OutputsOfAPromptDoNotDependOnHowManyThereAre) {
  constexpr std::int64_t kVocab = 1000;
  std::vector<float> logits(kVocab);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 7919) % 1000) / 250.0F;
  }
  const std::uint64_t seed = 11;
  const auto tokens_of = [&](std::int32_t n) {
    std::vector<std::uint64_t> children(static_cast<std::size_t>(n));
    EXPECT_FALSE(child_seeds({&seed, 1}, n, {children.data(), n}));
    const std::vector<std::int32_t> rows(static_cast<std::size_t>(n), 0);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(n), -7);
    SampleRequest request;
    request.logits = {logits.data(), DType::float32, 1, kVocab, kVocab};
    request.indices = {rows.data(), n};
    request.seed = {children.data(), n};
    SampleResult result;
    result.tokens = {tokens.data(), n};
    EXPECT_FALSE(sample(request, result));
    return tokens;
  };
  const std::vector<std::int32_t> many = tokens_of(8);
  for (std::int32_t n = 1; n < 8; ++n) {
    EXPECT_EQ(tokens_of(n), std::vector<std::int32_t>(many.begin(), many.begin() + n));
  }
  EXPECT_GT(std::unordered_set<std::int32_t>(many.begin(), many.end()).size(), 4U);
}

/// Runs best_of on arrays that the test owns.
struct BestOf {
  std::vector<double> cumulative;
  std::vector<std::int32_t> lengths;
  std::vector<RowStatus> candidate_statuses;
  std::int32_t candidates = 1, n = 1;
  PerRequest<double> length_penalty = 0;

  std::vector<std::int32_t> chosen;
  std::vector<double> scores;
  std::vector<RowStatus> statuses;
  Error error;

  void run() {
    const auto prompts = static_cast<std::int64_t>(cumulative.size()) / candidates;
    chosen.assign(static_cast<std::size_t>(prompts * n), -7);
    scores.assign(chosen.size(), 7);
    statuses.assign(static_cast<std::size_t>(prompts), RowStatus{-7});
    BestOfRequest request;
    request.prompts = prompts;
    request.candidates = candidates;
    request.n = n;
    request.cumulative = {cumulative.data(), static_cast<std::int64_t>(cumulative.size())};
    if (!lengths.empty()) request.lengths = {lengths.data(), prompts * candidates};
    if (!candidate_statuses.empty()) {
      request.statuses = {candidate_statuses.data(), prompts * candidates};
    }
    request.length_penalty = length_penalty;
    BestOfResult result;
    result.chosen = {chosen.data(), prompts * n};
    result.scores = {scores.data(), prompts * n};
    result.statuses = {statuses.data(), prompts};
    error = best_of(request, result);
  }
};

TEST(AddLogprobs, InTheOrderOfSteps) {
  // In double, -2^53 - 1 - 1 from the left is -2^53 (each 1 is half of the spacing, and rounds to
  // even). In another order it is -2^53 - 2.
  const std::vector<float> values = {-0x1p53F, -1.0F, -1.0F};
  double at_once = 0;
  ASSERT_FALSE(add_logprobs({{values.data(), 3}, 3, {}}, {&at_once, 1}));
  EXPECT_EQ(at_once, -0x1p53);
  double one_by_one = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_FALSE(add_logprobs({{values.data() + i, 1}, 1, {}}, {&one_by_one, 1}));
  }
  EXPECT_EQ(one_by_one, at_once);
}

TEST(AddLogprobs, TheCallersRoundingModeDoesNotShow) {
  std::mt19937_64 random(4);
  std::vector<float> values(64);
  for (float& value : values) value = -static_cast<float>(random() >> 40) * 0x1p-21F;
  const auto run = [&](int mode, std::vector<double>& sums, BestOf& best) {
    sums.assign(8, -1.0 / 3);
    best.candidates = 8;
    best.n = 8;
    best.lengths = {3, 5, 7, 9, 11, 13, 15, 17};
    best.length_penalty = 1;
    std::fesetround(mode);
    const Error error = add_logprobs({{values.data(), 64}, 8, {}}, {sums.data(), 8});
    best.cumulative = sums;
    best.run();
    std::fesetround(FE_TONEAREST);
    EXPECT_FALSE(error) << error.message;
  };
  std::vector<double> nearest_sums, sums;
  BestOf nearest, other;
  run(FE_TONEAREST, nearest_sums, nearest);
  double exact_sum = -1.0 / 3;  // adds in the order that is specified
  for (std::size_t i = 0; i < 8; ++i) exact_sum += static_cast<double>(values[i]);
  EXPECT_EQ(nearest_sums[0], exact_sum);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    run(mode, sums, other);
    EXPECT_EQ(sums, nearest_sums) << mode;
    EXPECT_EQ(other.scores, nearest.scores) << mode;
    EXPECT_EQ(other.chosen, nearest.chosen) << mode;
  }
}

TEST(AddLogprobs, OnlyTokensThatAreKeptCount) {
  const std::vector<float> values = {-1, -2, -4, -8, -16, std::nanf("")};
  const std::vector<std::int32_t> kept = {2, 0, 1};
  std::vector<double> sums = {-0.5, -0.25, 0};
  std::vector<RowStatus> statuses(3, RowStatus{-7});
  ASSERT_FALSE(add_logprobs({{values.data(), 6}, 2, {kept.data(), 3}}, {sums.data(), 3},
                            {statuses.data(), 3}));
  EXPECT_EQ(sums, (std::vector<double>{-3.5, -0.25, -16}));
  EXPECT_EQ(statuses, std::vector<RowStatus>(3, RowStatus::ok));
}

TEST(AddLogprobs, BadValuesFailTheirOutputAlone) {
  const std::vector<float> values = {-1, std::nanf(""), -1, kInfinityF, -1, -kInfinityF, -1, -2};
  std::vector<double> sums = {0, 0, 0, 0};
  std::vector<RowStatus> statuses(4, RowStatus{-7});
  const View<RowStatus> view = {statuses.data(), 4};
  ASSERT_FALSE(add_logprobs({{values.data(), 8}, 2, {}}, {sums.data(), 4}, view));
  EXPECT_EQ(sums, (std::vector<double>{0, 0, -kInfinity, -3}));
  EXPECT_EQ(statuses, (std::vector<RowStatus>{RowStatus::nan_input, RowStatus::infinite_input,
                                              RowStatus::ok, RowStatus::ok}));
  const std::vector<std::int32_t> kept = {0, 3, -1, 1};
  ASSERT_FALSE(add_logprobs({{values.data(), 8}, 2, {kept.data(), 4}}, {sums.data(), 4}, view));
  EXPECT_EQ(sums, (std::vector<double>{0, 0, -kInfinity, -4}));
  EXPECT_EQ(statuses, (std::vector<RowStatus>{RowStatus::ok, RowStatus::invalid_history,
                                              RowStatus::invalid_history, RowStatus::ok}));
}

TEST(AddLogprobs, ArraysOfTheWrongLengthAreRefused) {
  const float value = -1;
  double sum = 0;
  Error error = add_logprobs({{&value, 1}, 2, {}}, {&sum, 1});
  EXPECT_NE(error.message.find("length of logprobs is 1; allowed: 2"), std::string::npos);
  error = add_logprobs({{&value, 1}, -1, {}}, {&sum, 1});
  EXPECT_NE(error.message.find("tokens_per_step is -1"), std::string::npos);
  EXPECT_EQ(sum, 0);
}

TEST(BestOfN, BestFirstAndTiesByNumber) {
  BestOf call;
  call.candidates = 4;
  call.n = 3;
  call.cumulative = {-4, -1, -2, -1, -5, -5, -5, -5};
  call.run();
  ASSERT_FALSE(call.error) << call.error.message;
  EXPECT_EQ(call.chosen, (std::vector<std::int32_t>{1, 3, 2, 0, 1, 2}));
  EXPECT_EQ(call.scores, (std::vector<double>{-1, -1, -2, -5, -5, -5}));
}

TEST(BestOfN, LengthsCountWhereAPenaltySays) {
  BestOf call;
  call.candidates = 3;
  call.n = 3;
  call.cumulative = {-4, -6, -9};
  call.lengths = {1, 4, 9};
  call.run();
  EXPECT_EQ(call.chosen, (std::vector<std::int32_t>{0, 1, 2}));
  call.length_penalty = 1;  // means: -4, -1.5, -1
  call.run();
  EXPECT_EQ(call.chosen, (std::vector<std::int32_t>{2, 1, 0}));
  EXPECT_EQ(call.scores, (std::vector<double>{-1, -1.5, -4}));
  call.length_penalty = 0.5;  // square roots: -4, -3, -3: a tie
  call.run();
  EXPECT_EQ(call.chosen, (std::vector<std::int32_t>{1, 2, 0}));
  EXPECT_EQ(call.scores, (std::vector<double>{-3, -3, -4}));
  call.length_penalty = -1;  // long candidates are worse, with scores -4, -24 and -81
  call.run();
  EXPECT_EQ(call.chosen, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(BestOfN, FailedCandidatesAreOut) {
  BestOf call;
  call.candidates = 3;
  call.n = 2;
  call.cumulative = {std::nan(""), -3, -2, -1, -1, -1, -kInfinity, -1, -2};
  call.candidate_statuses.assign(9, RowStatus::ok);
  call.candidate_statuses[0] = RowStatus::nan_input;
  call.candidate_statuses[3] = call.candidate_statuses[4] = RowStatus::no_allowed_token;
  call.run();
  EXPECT_EQ(call.chosen, (std::vector<std::int32_t>{2, 1, 2, -1, 1, 2}));
  EXPECT_EQ(call.scores, (std::vector<double>{-2, -3, -1, -kInfinity, -1, -2}));
  EXPECT_EQ(call.statuses, std::vector<RowStatus>(3, RowStatus::ok));
}

TEST(BestOfN, BadPromptsFailAlone) {
  BestOf call;
  call.candidates = 2;
  call.cumulative = {-1, std::nan(""), -1, kInfinity, -1, -2, -1, -2, -4, -3};
  call.lengths = {1, 1, 1, 1, 1, 0, 1, 1, 1, 1};
  const std::vector<double> penalties = {1, 1, 1, std::nan(""), 1};
  call.length_penalty = {penalties.data(), 5};
  call.run();
  ASSERT_FALSE(call.error) << call.error.message;
  EXPECT_EQ(call.statuses, (std::vector<RowStatus>{RowStatus::nan_input, RowStatus::infinite_input,
                                                   RowStatus::invalid_history,
                                                   RowStatus::invalid_penalty, RowStatus::ok}));
  EXPECT_EQ(call.chosen, (std::vector<std::int32_t>{-1, -1, -1, -1, 1}));
}

TEST(BestOfN, WhatIsRefused) {
  const auto message_of = [](const auto& mutation) {
    BestOf call;
    call.candidates = 2;
    call.cumulative = {-1, -2};
    mutation(call);
    call.run();
    for (const std::int32_t chosen : call.chosen) EXPECT_EQ(chosen, -7);  // nothing was written
    return call.error.message;
  };
  EXPECT_NE(message_of([](BestOf& c) { c.n = 0; }).find("n is 0; allowed: 1 to candidates (2)"),
            std::string::npos);
  EXPECT_NE(message_of([](BestOf& c) { c.n = 3; }).find("n is 3"), std::string::npos);
  EXPECT_NE(message_of([](BestOf& c) { c.length_penalty = 1; }).find("lengths is null"),
            std::string::npos);
}

// Compares the result with a sort of (score, number) pairs.
TEST(BestOfN, AgreesWithASort) {
  std::mt19937_64 random(3);
  for (int repeat = 0; repeat < 500; ++repeat) {
    BestOf call;
    call.candidates = static_cast<std::int32_t>(1 + random() % 9);
    call.n = static_cast<std::int32_t>(1 + random() % static_cast<std::uint64_t>(call.candidates));
    std::vector<std::pair<double, std::int32_t>> sorted;
    for (std::int32_t i = 0; i < call.candidates; ++i) {
      call.cumulative.push_back(-static_cast<double>(random() % 5));  // ties
      sorted.emplace_back(-call.cumulative.back(), i);
    }
    std::sort(sorted.begin(), sorted.end());
    call.run();
    for (std::size_t i = 0; i < call.chosen.size(); ++i) {
      EXPECT_EQ(call.chosen[i], sorted[i].second);
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
