// Whole calls report log-probabilities. The tests check the positions of the results, the rows that
// the results belong to, the results of failed outputs, and rejected arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "fairdraw/log_probabilities.h"
#include "fairdraw/sample.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUntouched = 77;
using Ids = std::vector<std::int32_t>;
using Floats = std::vector<float>;

/// A call on three rows of four logits, with two samples per output; each test changes one part.
/// raw_logits reports the logits themselves, so that expected values can be read from the rows.
struct Call {
  static constexpr std::int64_t kRows = 3, kVocab = 4, kStride = 6;
  Floats logits = {0, 1, 2, 3, /**/ 9, 8, 8, -kInfinity, /**/ 5, 7, 5, 5};
  SampleRequest request;
  SampleResult result;
  Ids tokens, ranks, top_ids;
  Floats values, top_values, all;
  std::vector<RowStatus> statuses;

  explicit Call(std::int64_t outputs = kRows, std::int32_t samples = 2, std::int32_t top_n = 2) {
    request.logits = {logits.data(), DType::float32, kRows, kVocab, kVocab};
    request.num_samples = samples;
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    tokens.assign(size(outputs * samples), -7);
    ranks.assign(tokens.size(), -7);
    values.assign(tokens.size(), kUntouched);
    top_ids.assign(size(outputs * top_n), -7);
    top_values.assign(top_ids.size(), kUntouched);
    statuses.assign(size(outputs), RowStatus::nan_input);
    all.assign(size(kRows * kStride), kUntouched);
    const auto view = [](auto& array) {
      return View(array.data(), static_cast<std::int64_t>(array.size()));
    };
    result.tokens = view(tokens);
    result.statuses = view(statuses);
    LogprobsResult& logprobs = result.logprobs;
    logprobs.mode = LogprobsMode::raw_logits;
    logprobs.top_n = top_n;
    logprobs.values = view(values);
    logprobs.ranks = view(ranks);
    logprobs.top_ids = view(top_ids);
    logprobs.top_values = view(top_values);
    logprobs.all = {all.data(), kRows, kStride};
  }

  Floats row_of_all(std::size_t row) const {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * kStride);
    return {begin, begin + kStride};
  }
};

TEST(LogProbabilityCalls, SamplesOfAnOutputShareItsTop) {
  Call call;
  ASSERT_FALSE(sample(call.request, call.result));
  EXPECT_EQ(call.top_ids, (Ids{3, 2, 0, 1, 1, 0}));
  EXPECT_EQ(call.top_values, (Floats{3, 2, 9, 8, 7, 5}));
  for (std::size_t i = 0; i < call.tokens.size(); ++i) {
    const float* row = call.logits.data() + i / 2 * 4;
    EXPECT_EQ(call.values[i], row[call.tokens[i]]);
  }
}

TEST(LogProbabilityCalls, RowsOfAllHaveAStride) {
  Call call;
  ASSERT_FALSE(sample(call.request, call.result));
  EXPECT_EQ(call.row_of_all(0), (Floats{0, 1, 2, 3, kUntouched, kUntouched}));
  EXPECT_EQ(call.row_of_all(1), (Floats{9, 8, 8, -kInfinity, kUntouched, kUntouched}));
  EXPECT_EQ(call.row_of_all(2), (Floats{5, 7, 5, 5, kUntouched, kUntouched}));
}

TEST(LogProbabilityCalls, OutputsAreThoseOfTheirIndex) {
  Call call(4, 1);
  const Ids indices = {2, 0, 3, 2};
  call.request.indices = {indices.data(), 4};
  ASSERT_FALSE(sample(call.request, call.result));
  EXPECT_EQ(call.top_ids, (Ids{1, 0, 3, 2, -1, -1, 1, 0}));
  EXPECT_EQ(call.statuses[2], RowStatus::index_out_of_range);
  EXPECT_EQ(call.values[2], -kInfinity);
  EXPECT_EQ(call.ranks[2], 0);
  EXPECT_EQ(call.top_values[4], -kInfinity);
  EXPECT_EQ(call.row_of_all(1)[0], 9);  // the row has no outputs, but the whole row is requested
}

TEST(LogProbabilityCalls, RanksOfBothRules) {
  for (const RankRule rule : {RankRule::position, RankRule::at_least}) {
    Call call(3, 4);
    call.result.logprobs.rank_rule = rule;
    const Ids ids = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
    ASSERT_FALSE(log_probabilities(call.request, {ids.data(), 12}, call.result.logprobs,
                                   call.result.statuses));
    const Ids expected = rule == RankRule::position ? Ids{4, 3, 2, 1, 1, 2, 3, 0, 2, 1, 3, 4}
                                                    : Ids{4, 3, 2, 1, 1, 3, 3, 0, 4, 1, 4, 4};
    EXPECT_EQ(call.ranks, expected) << to_string(rule);
    EXPECT_EQ(call.values, call.logits);
  }
}

TEST(LogProbabilityCalls, RawModesPassByWhatProcessedOnesSee) {
  const std::vector<std::uint32_t> allowed = {0b0111, 0b0010, 0b1111};
  for (const LogprobsMode mode : {LogprobsMode::raw_logits, LogprobsMode::processed_logits}) {
    Call call;
    call.request.allowed = {allowed.data(), 3, 1};
    call.request.temperature = 0.5F;
    call.request.top_k = 2;
    call.result.logprobs.mode = mode;
    ASSERT_FALSE(sample(call.request, call.result));
    const bool raw = mode == LogprobsMode::raw_logits;
    EXPECT_EQ(call.top_ids, raw ? (Ids{3, 2, 0, 1, 1, 0}) : (Ids{2, 1, 1, -1, 1, 0}));
    EXPECT_EQ(call.top_values,
              raw ? (Floats{3, 2, 9, 8, 7, 5}) : (Floats{4, 2, 16, -kInfinity, 14, 10}));
    const Floats last = raw ? Floats{5, 7, 5, 5} : Floats{10, 14, 10, 10};  // keeps ties at k
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(call.row_of_all(2)[i], last[i]);
  }
}

TEST(LogProbabilityCalls, RawModesAreOfTheRowBeforeProcessing) {
  // Row 0: token 3 gets -10. Token 0 is banned in row 1. Row 2: nothing.
  const Ids ids = {3, 0};
  const Floats bias = {-10, -kInfinity};
  const std::vector<std::int64_t> begins = {0, 1, 2};
  const std::vector<std::int32_t> lengths = {1, 1, 0};
  for (const LogprobsMode mode : {LogprobsMode::raw_logits, LogprobsMode::processed_logits}) {
    Call call;
    call.request.processing.bias_ids = {ids.data(), 2, {begins.data(), 3}, {lengths.data(), 3}};
    call.request.processing.bias_values = {bias.data(), 2};
    call.result.logprobs.mode = mode;
    ASSERT_FALSE(sample(call.request, call.result));
    const bool raw = mode == LogprobsMode::raw_logits;
    EXPECT_EQ(call.top_ids, raw ? (Ids{3, 2, 0, 1, 1, 0}) : (Ids{2, 1, 1, 2, 1, 0}));
    EXPECT_EQ(call.row_of_all(0)[3], raw ? 3.0F : -7.0F);
    EXPECT_EQ(call.row_of_all(1)[0], raw ? 9.0F : -kInfinity);
    for (std::size_t i = 0; i < call.tokens.size(); ++i) {
      const float* row = call.logits.data() + i / 2 * 4;
      const bool biased = !raw && i < 2 && call.tokens[i] == 3;
      EXPECT_EQ(call.values[i], row[call.tokens[i]] + (biased ? -10.0F : 0.0F));
    }
    // A call for given tokens reports the same values.
    const Ids given = {3, 0, 0, 1, 0, 1};
    ASSERT_FALSE(log_probabilities(call.request, {given.data(), 6}, call.result.logprobs));
    EXPECT_EQ(call.values, raw ? (Floats{3, 0, 9, 8, 5, 7}) : (Floats{-7, 0, -kInfinity, 8, 5, 7}));
  }
}

TEST(LogProbabilityCalls, GreedyRowsKeepOneToken) {
  Call call;
  call.request.temperature = 0.0F;
  call.result.logprobs.mode = LogprobsMode::processed_logprobs;
  ASSERT_FALSE(sample(call.request, call.result));
  EXPECT_EQ(call.top_ids, (Ids{3, -1, 0, -1, 1, -1}));
  EXPECT_EQ(call.values, (Floats{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(call.ranks, (Ids{1, 1, 1, 1, 1, 1}));
}

TEST(LogProbabilityCalls, FailedAndInactiveRowsHaveNone) {
  Call call;
  call.logits[0] = NAN;
  const std::vector<std::uint8_t> active = {1, 0, 1};
  call.request.active = {active.data(), 3};
  ASSERT_FALSE(sample(call.request, call.result));
  EXPECT_EQ(call.statuses[0], RowStatus::nan_input);
  EXPECT_EQ(call.statuses[1], RowStatus::inactive);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(call.values[i], -kInfinity);
    EXPECT_EQ(call.ranks[i], 0);
    EXPECT_EQ(call.top_ids[i], -1);
    EXPECT_EQ(call.top_values[i], -kInfinity);
  }
  EXPECT_EQ(call.row_of_all(0)[3], -kInfinity);
  EXPECT_EQ(call.row_of_all(1)[3], kUntouched);
  EXPECT_EQ(call.row_of_all(2)[3], 5);
  EXPECT_EQ(call.top_ids[4], 1);
}

TEST(LogProbabilityCalls, GivenTokensOutsideTheVocabularyFailTheirOutputAlone) {
  Call call;
  const Ids ids = {0, 4, 1, 2, -1, 0};
  ASSERT_FALSE(
      log_probabilities(call.request, {ids.data(), 6}, call.result.logprobs, call.result.statuses));
  EXPECT_EQ(call.statuses, (std::vector<RowStatus>{RowStatus::index_out_of_range, RowStatus::ok,
                                                   RowStatus::index_out_of_range}));
  EXPECT_EQ(call.values, (Floats{-kInfinity, -kInfinity, 8, 8, -kInfinity, -kInfinity}));
  EXPECT_EQ(call.top_ids, (Ids{-1, -1, 0, 1, -1, -1}));
}

TEST(LogProbabilityCalls, RawModesOfGivenTokensTakeNoFilter) {
  Call call(3, 1);
  call.request.temperature = -1.0F;  // invalid temperature: `sample` would fail the row
  call.request.top_p = NAN;
  const Ids ids = {0, 2, 3};
  ASSERT_FALSE(
      log_probabilities(call.request, {ids.data(), 3}, call.result.logprobs, call.result.statuses));
  EXPECT_EQ(call.values, (Floats{0, 8, 5}));
  call.result.logprobs.mode = LogprobsMode::processed_logits;
  ASSERT_FALSE(
      log_probabilities(call.request, {ids.data(), 3}, call.result.logprobs, call.result.statuses));
  EXPECT_EQ(call.statuses, std::vector<RowStatus>(3, RowStatus::invalid_temperature));
}

TEST(LogProbabilityCalls, ValuesBeyondFloat32AreItsLargest) {
  Call call(3, 1);
  call.logits = {3e38F, -3e38F, 0, -kInfinity, 1, 0, 0, 0, 0, 0, 0, 0};
  const Ids ids = {1, 0, 0};
  for (const LogprobsMode mode : {LogprobsMode::raw_logprobs, LogprobsMode::processed_logprobs,
                                  LogprobsMode::processed_logits}) {
    call.request.temperature = 0x1p-126F;
    call.result.logprobs.mode = mode;
    ASSERT_FALSE(log_probabilities(call.request, {ids.data(), 3}, call.result.logprobs));
    EXPECT_EQ(call.values[0], -std::numeric_limits<float>::max()) << to_string(mode);
    EXPECT_EQ(call.ranks[0], 3);
    EXPECT_EQ(call.row_of_all(0)[3], -kInfinity);
  }
}

TEST(LogProbabilityCalls, EmptyCallsAreTaken) {
  Call call(0, 1);
  call.request.logits.rows = 0;
  call.result.logprobs.all.rows = 0;
  EXPECT_FALSE(sample(call.request, call.result));
  EXPECT_FALSE(log_probabilities(call.request, {}, call.result.logprobs));
}

TEST(LogProbabilityCalls, WhatIsRefused) {
  const auto refuse = [](auto change, const std::vector<std::string>& parts) {
    Call call;
    change(call);
    const Error error = sample(call.request, call.result);
    EXPECT_TRUE(error);
    for (const std::string& part : parts) {
      EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
    }
    EXPECT_EQ(call.values[0], kUntouched);
  };
  refuse([](Call& c) { c.result.logprobs.mode = static_cast<LogprobsMode>(4); },
         {"logprobs.mode is 4", "raw_logits"});
  refuse([](Call& c) { c.result.logprobs.rank_rule = static_cast<RankRule>(2); },
         {"logprobs.rank_rule is 2", "at_least"});
  refuse([](Call& c) { c.result.logprobs.top_n = 129; }, {"logprobs.top_n is 129", "0 to 128"});
  refuse([](Call& c) { c.result.logprobs.top_n = -1; }, {"logprobs.top_n is -1"});
  refuse([](Call& c) { c.result.logprobs.top_ids = {}; }, {"logprobs.top_ids is null"});
  refuse([](Call& c) { c.result.logprobs.top_values.size = 5; },
         {"length of logprobs.top_values is 5", "allowed: 6"});
  refuse([](Call& c) { c.result.logprobs.values.size = 5; }, {"length of logprobs.values is 5"});
  refuse([](Call& c) { c.result.logprobs.ranks.size = 7; }, {"length of logprobs.ranks is 7"});
  refuse([](Call& c) { c.result.logprobs.all.row_stride = 3; },
         {"logprobs.all.row_stride is 3", ">= 4"});
  Call call;
  const Ids ids(5, 0);
  const Error length = log_probabilities(call.request, {ids.data(), 5}, call.result.logprobs);
  EXPECT_NE(length.message.find("length of token_ids is 5"), std::string::npos);
  const Error null = log_probabilities(call.request, {}, call.result.logprobs);
  EXPECT_NE(null.message.find("token_ids is null"), std::string::npos);
}

}  // namespace
}  // namespace fairdraw::suites
