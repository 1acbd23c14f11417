// Tests the oracle of log-probabilities on rows whose answers are known independently.
#include "reference/log_probabilities.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fairdraw::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kLn2 = 0.69314718055994530942;
using Ids = std::vector<std::int32_t>;

// The error of ln 2 as a logit, up to 2^-25, in the results that depend on ln 2.
constexpr double kOfLn2 = 0x1p-24;

TEST(LogProbabilities, OfEqualLogitsIsMinusTheLogarithmOfTheirNumber) {
  const std::vector<float> row(8, 3.5F);
  const RealLogprobs real = real_log_probabilities(row, {}, LogprobsMode::raw_logprobs, 1);
  for (std::size_t token = 0; token < 8; ++token) {
    EXPECT_NEAR(real.value[token], -3 * kLn2, 0x1p-50);  // tolerance for rounding ln 8 in float64
    EXPECT_EQ(real.rank(static_cast<std::int32_t>(token), RankRule::position),
              static_cast<std::int32_t>(token) + 1);
    EXPECT_EQ(real.rank(static_cast<std::int32_t>(token), RankRule::at_least), 8);
  }
  EXPECT_EQ(real.order, (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(LogProbabilities, OfHalfAQuarterAndTwoEighths) {
  const auto ln2 = static_cast<float>(kLn2);
  const std::vector<float> row = {-ln2, ln2, 0, -ln2, -kInfinity};
  const RealLogprobs real = real_log_probabilities(row, {}, LogprobsMode::raw_logprobs, 1);
  const double expected[] = {-3 * kLn2, -kLn2, -2 * kLn2, -3 * kLn2};
  for (std::size_t token = 0; token < 4; ++token) {
    EXPECT_NEAR(real.value[token], expected[token], kOfLn2);
    EXPECT_GT(real.bound[token], 0);
  }
  EXPECT_EQ(real.value[4], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(real.order, (Ids{1, 2, 0, 3}));
  EXPECT_EQ(real.rank(3, RankRule::position), 4);
  EXPECT_EQ(real.rank(0, RankRule::position), 3);
  EXPECT_EQ(real.rank(0, RankRule::at_least), 4);
  EXPECT_EQ(real.rank(4, RankRule::at_least), 0);

  // The two tokens that a filter keeps have odds of 4 to 1 at temperature 1/2.
  const std::vector<std::uint8_t> kept = {0, 1, 1, 0, 0};
  const RealLogprobs two =
      real_log_probabilities(row, kept, LogprobsMode::processed_logprobs, 0.5F);
  EXPECT_NEAR(two.value[1], std::log(0.8), kOfLn2);
  EXPECT_NEAR(two.value[2], std::log(0.2), kOfLn2);
  EXPECT_EQ(two.value[0], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(two.rank(0, RankRule::position), 0);
}

TEST(LogProbabilities, LogitsAreTheNumbersThemselves) {
  const std::vector<float> row = {1, -0.0F, 0, 3e38F};
  const RealLogprobs raw = real_log_probabilities(row, {}, LogprobsMode::raw_logits, 0.125F);
  EXPECT_EQ(raw.value[0], 1);
  EXPECT_EQ(raw.order, (Ids{3, 0, 1, 2}));  // the zeros tie
  EXPECT_EQ(raw.bound[0], 0);
  const RealLogprobs processed =
      real_log_probabilities(row, {}, LogprobsMode::processed_logits, 0.125F);
  EXPECT_EQ(processed.value[0], 8);
  EXPECT_EQ(processed.value[3], static_cast<double>(std::numeric_limits<float>::max()));
  const RealLogprobs greedy = real_log_probabilities(row, {}, LogprobsMode::processed_logits, 0);
  EXPECT_EQ(greedy.value[0], 1);
}

TEST(LogProbabilities, NothingHasAValueWhereNothingIsAllowed) {
  const std::vector<float> row(3, -kInfinity);
  const RealLogprobs real = real_log_probabilities(row, {}, LogprobsMode::raw_logprobs, 1);
  EXPECT_TRUE(real.order.empty());
  EXPECT_EQ(real.rank(0, RankRule::position), 0);
}

}  // namespace
}  // namespace fairdraw::reference
