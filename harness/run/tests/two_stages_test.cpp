// Tests the two stages of a test: failures, results to watch, and costs.
#include "harness/run/checks/statistical/two_stages.h"

#include <gtest/gtest.h>

namespace fairdraw::harness {
namespace {

constexpr double kLevel = 1e-6;  // each look has 7.1e-4; a failure at once has 5e-7

struct Judged {
  CheckOutcome outcome;
  int looks = 0;
};

Judged judge(std::vector<Finding> first, const std::vector<Finding>& second) {
  Judged judged;
  judge_in_two_stages(
      [&](int look) {
        ++judged.looks;
        return look == 0 ? first : second;
      },
      judged.outcome);
  return judged;
}

Finding finding(const std::string& name, double p_value, bool never_at_once = false) {
  return {.name = name,
          .p_value = p_value,
          .level = kLevel,
          .what = name,
          .never_at_once = never_at_once};
}

TEST(TwoStages, SpendsItsLevel) {
  const TwoStages levels(kLevel);
  // The sum has one square root and its square, each exact to half an ulp.
  EXPECT_LE(std::abs(levels.at_once + levels.each * levels.each - kLevel), kLevel * 0x1p-51);
  const Judged judged = judge({finding("a", 0.3), finding("b", 0.7)}, {});
  EXPECT_EQ(judged.looks, 1);
  EXPECT_EQ(judged.outcome.spent(), 2 * kLevel);
  EXPECT_STREQ(to_string(judged.outcome.verdict), "passed");
  EXPECT_TRUE(judged.outcome.watch.empty());
}

TEST(TwoStages, OverwhelmingEvidenceNeedsNoSecondLook) {
  const Judged judged = judge({finding("a", 0.3), finding("b", 4e-7)}, {});
  EXPECT_EQ(judged.looks, 1);
  EXPECT_TRUE(judged.outcome.failed());
  EXPECT_NE(judged.outcome.message.find("b (p 4.00e-07"), std::string::npos)
      << judged.outcome.message;
}

TEST(TwoStages, SuspicionIsConfirmed) {
  const Judged judged = judge({finding("a", 6e-4)}, {finding("a", 7e-4)});
  EXPECT_EQ(judged.looks, 2);
  EXPECT_TRUE(judged.outcome.failed());
  EXPECT_EQ(judged.outcome.spent(), kLevel);
}

TEST(TwoStages, SuspicionThatIsNotConfirmedIsToWatch) {
  const Judged judged =
      judge({finding("a", 6e-4), finding("b", 0.5)}, {finding("a", 0.04), finding("b", 1e-9)});
  EXPECT_EQ(judged.looks, 2);
  // Statistic b was not suspicious in the first look, so its second look does not count.
  EXPECT_STREQ(to_string(judged.outcome.verdict), "passed");
  EXPECT_EQ(judged.outcome.watch, "a (p 6.00e-04, but 0.04 on fresh draws)");
}

TEST(TwoStages, SomeAreAlwaysConfirmed) {
  const Judged judged = judge({finding("a", 1e-30, true)}, {finding("a", 0.5, true)});
  EXPECT_EQ(judged.looks, 2);
  EXPECT_FALSE(judged.outcome.failed());
  EXPECT_FALSE(judged.outcome.watch.empty());
  EXPECT_TRUE(judge({finding("a", 1e-30, true)}, {finding("a", 1e-5, true)}).outcome.failed());
}

TEST(TwoStages, FailuresOfALookEndIt) {
  CheckOutcome outcome;
  judge_in_two_stages(
      [&](int) {
        outcome.fail("token 7 is outside of the support");
        return std::vector<Finding>{finding("a", 1e-30)};
      },
      outcome);
  EXPECT_EQ(outcome.message, "token 7 is outside of the support");
  EXPECT_EQ(outcome.spent(), 0);
}

}  // namespace
}  // namespace fairdraw::harness
