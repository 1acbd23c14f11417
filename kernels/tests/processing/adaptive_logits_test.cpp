// The logits of adaptive_p are tested by hand, on rows whose probabilities the comments have, and
// on random rows against real numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/processing/kept_tokens.h"

namespace fairdraw::suites {
namespace {

RowProcessing near_target(float target) {
  RowProcessing row;
  row.filter_chain = filter_chain_of({FilterStep::adaptive_p});
  row.adaptive_target = target;
  return row;
}

/// Expects logits within the rounding to float32 of numbers below 8, which is 2^-22. Doubles add
/// less than 2^-48 to it, which the factor of 2 covers.
void expect_near(const std::vector<float>& logits, const RowProcessing& row,
                 const std::vector<double>& expected) {
  const Processed processed = process(logits, row);
  ASSERT_EQ(processed.status, RowStatus::ok) << to_string(processed.status);
  ASSERT_EQ(processed.logits.size(), expected.size());
  for (std::size_t id = 0; id < expected.size(); ++id) {
    if (std::isinf(expected[id])) {
      EXPECT_EQ(processed.logits[id], kBanned) << id;
    } else {
      EXPECT_NEAR(processed.logits[id], expected[id], 2 * 0x1p-22) << id;
    }
  }
}

// The probabilities are 1/2, 1/4, 1/8 and 1/8, exactly.
const std::vector<float> kHalves = {2 * kLn2, kLn2, 0, 0};

// With the target 1/2, d is 0, 5/6 and 5/4, and d^2 / (1 + d) is 0, 25/66 and 25/36.
TEST(AdaptiveLogits, FallWithTheDistanceOfTheProbability) {
  expect_near(kHalves, near_target(0.5F), {5, 5 - 250.0 / 66, 5 - 250.0 / 36, 5 - 250.0 / 36});
}

// With the target 1/4, d is 5/6, 0 and 5/12, and d^2 / (1 + d) is 25/66, 0 and 25/204.
TEST(AdaptiveLogits, TokensOnBothSidesOfTheTargetLose) {
  expect_near(kHalves, near_target(0.25F), {5 - 250.0 / 66, 5, 5 - 250.0 / 204, 5 - 250.0 / 204});
}

// With the target 0, d is 5/3, 5/6 and 5/12: d^2 / (1 + d) is 25/24, 25/66 and 25/204.
TEST(AdaptiveLogits, ATargetOfZeroPrefersTheLeastProbable) {
  const std::vector<double> expected = {5 - 250.0 / 24, 5 - 250.0 / 66, 5 - 250.0 / 204,
                                        5 - 250.0 / 204};
  expect_near(kHalves, near_target(0), expected);
  expect_near(kHalves, near_target(-0.0F), expected);
}

// top_k leaves 2/3 and 1/3, and at the temperature 1/2 they are 4/5 and 1/5: with the target 1/2, d
// is 1 for both, and d^2 / (1 + d) is 1/2. At the temperature 1, d is 5/9, and d^2 / (1 + d)
// 25/126.
TEST(AdaptiveLogits, ProbabilitiesAreThoseThatTheChainHasReached) {
  RowProcessing row = near_target(0.5F);
  row.chain_top_k = 2;
  row.chain_temperature = 0.5F;
  row.filter_chain =
      filter_chain_of({FilterStep::top_k, FilterStep::temperature, FilterStep::adaptive_p});
  expect_near(kHalves, row, {0, 0, kBanned, kBanned});
  row.chain_temperature = 1;
  expect_near(kHalves, row, {5 - 250.0 / 126, 5 - 250.0 / 126, kBanned, kBanned});
  row.filter_chain = filter_chain_of({FilterStep::temperature, FilterStep::adaptive_p});
  expect_near(kHalves, row, {5, 5 - 250.0 / 66, 5 - 250.0 / 36, 5 - 250.0 / 36});
}

TEST(AdaptiveLogits, BansOfOtherStepsStay) {
  RowProcessing row = near_target(1);
  row.biases = {{0, kBanned}, {1, kBanned}};
  const std::vector<float> logits = {9, kBanned, 2, 2, kBanned};
  // Both have 1/2: d is 5/3, and d^2 / (1 + d) 25/24.
  expect_near(logits, row, {kBanned, kBanned, 5 - 250.0 / 24, 5 - 250.0 / 24, kBanned});
}

TEST(AdaptiveLogits, ATokenAloneStays) {
  for (const float target : {0.0F, 0.3F, 1.0F}) {
    EXPECT_EQ(draw_from({kBanned, -1e30F, kBanned}, near_target(target), {}).token, 1) << target;
  }
  expect_near({3}, near_target(1), {5});
}

TEST(AdaptiveLogits, LogitsWithoutAWeightHaveNoProbability) {
  expect_near({0, -1e30F}, near_target(0), {5 - 10 * (100.0 / 9) / (13.0 / 3), 5});
}

TEST(AdaptiveLogits, ATargetBelowZeroIsOff) {
  expect(kHalves, near_target(-1), kHalves);
  expect(kHalves, near_target(-0x1p-149F), kHalves);
  RowProcessing row;
  row.adaptive_target = 0.5F;
  expect(kHalves, row, kHalves);  // no chain has the step
}

// Of the target 1/8, the tokens 2 and 3 have the largest logits, and the draw's top_k counts these.
TEST(AdaptiveLogits, TheRequestsOwnParametersSeeThem) {
  SampleRequest request;
  request.temperature = 0.0F;
  EXPECT_EQ(draw_from(kHalves, near_target(0.125F), request).token, 2);
  request.temperature = 1.0F;
  request.top_k = 2;
  EXPECT_GE(draw_from(kHalves, near_target(0.125F), request).token, 2);
}

TEST(AdaptiveLogits, ValuesBeyondTheirRangesFail) {
  for (const float bad : {std::nanf(""), -0x1.000002p0F, 0x1.000002p0F, kInfinity}) {
    EXPECT_EQ(process({0, 1}, near_target(bad)).status, RowStatus::invalid_probability_filter)
        << bad;
  }
}

TEST(AdaptiveLogits, OnlyTheLastStepMayMakeThem) {
  RowProcessing row = near_target(0.5F);
  row.filter_chain = filter_chain_of({FilterStep::adaptive_p, FilterStep::temperature});
  EXPECT_EQ(process({0, 1}, row).status, RowStatus::invalid_probability_filter);
  row.filter_chain = filter_chain_of({FilterStep::adaptive_p, FilterStep::adaptive_p});
  EXPECT_EQ(process({0, 1}, row).status, RowStatus::invalid_probability_filter);
}

// In long double: the definition, with the bound of common/probability_filters.h. The factor 34 in
// place of 100/3 covers the terms of second order.
TEST(AdaptiveLogits, RandomRowsHaveTheLogitsOfRealNumbers) {
  constexpr std::array<float, 6> kTargets = {0.3F, 0, 1, 0.05F, 0.5F, 0.9F};
  constexpr std::array<float, 4> kTemperatures = {1, 0.5F, 2, 0.8F};
  std::mt19937_64 random(44);
  int tokens = 0;
  for (int number = 0; number < 2000; ++number) {
    const std::vector<float> logits = random_logits(random);
    RowProcessing row = near_target(kTargets[random() % kTargets.size()]);
    row.filter_chain = filter_chain_of({FilterStep::temperature, FilterStep::adaptive_p});
    row.chain_temperature = kTemperatures[random() % kTemperatures.size()];
    const Processed processed = process(logits, row);
    ASSERT_EQ(processed.status, RowStatus::ok);
    const long double largest = *std::ranges::max_element(logits);
    const auto distance = [&](float x) { return (largest - x) / row.chain_temperature; };
    const auto error_of = [](long double d) { return 0x1p-22L + 0x1p-24L * d; };
    long double total = 0, mean_error = 0;
    for (const float x : logits) {
      if (x == kBanned) continue;
      total += std::exp(-distance(x));
      mean_error += std::exp(-distance(x)) * error_of(distance(x));
    }
    mean_error /= total;
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (logits[id] == kBanned) {
        EXPECT_EQ(processed.logits[id], kBanned);
        continue;
      }
      const long double p = std::exp(-distance(logits[id])) / total;
      const long double d = std::abs(p - static_cast<long double>(row.adaptive_target)) / 0.3L;
      const long double expected = 5 - 10 * d * d / (1 + d);
      const long double bound = 34 * p * (error_of(distance(logits[id])) + mean_error) + 0x1p-20L;
      EXPECT_NEAR(processed.logits[id], static_cast<double>(expected), static_cast<double>(bound))
          << number;
      ++tokens;
    }
  }
  EXPECT_GT(tokens, 100000);
}

}  // namespace
}  // namespace fairdraw::suites
