// Tests rows of probabilities: how they are made from logits, how built-in samplers take them, and
// what the checks find in them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "harness/adapters/model_sampler.h"
#include "harness/run/calls/row_probabilities.h"
#include "harness/run/checks/checks.h"

namespace fairdraw::harness {
namespace {

constexpr float kDyadicTemperature = 0x1.715476p0F;  // the scale c is 1, so logits are octaves

bool is_power_of_two(float value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5F;
}

TEST(ToProbabilities, KeepsPowersOfTwo) {
  for (const Family family : {Family::mass_exactly_p, Family::dyadic}) {
    for (const std::int64_t vocab : {2, 31, 1000}) {
      std::vector<float> row(static_cast<std::size_t>(vocab));
      family_source(family, 1, vocab, DType::float32)->fill(0, row);
      to_probabilities(row, kDyadicTemperature, DType::float32);
      for (const float p : row) EXPECT_TRUE(is_power_of_two(p)) << p;
      const double sum = std::accumulate(row.begin(), row.end(), 0.0);  // exact, because the values
                                                                        // have few bits
      EXPECT_LE(sum, 1);
      EXPECT_GT(sum, 0.5);
      EXPECT_TRUE(family != Family::mass_exactly_p || sum == 1) << sum;
    }
  }
}

TEST(ToProbabilities, NormalisesEverythingElse) {
  std::vector<float> row = {0, 1, -std::numeric_limits<float>::infinity(), -3};
  const double z = 1 + std::exp(-1.0) + std::exp(-4.0);
  to_probabilities(row, 1, DType::float32);
  // The constant c is exact to half an ulp, which makes 4 * 2^-24 in the exponent, and one rounding
  // of the result.
  EXPECT_NEAR(row[0], std::exp(-1.0) / z, 6 * 0x1p-24);
  EXPECT_NEAR(row[1], 1 / z, 6 * 0x1p-24);
  EXPECT_EQ(row[2], 0.0F);
  EXPECT_NEAR(row[3], std::exp(-4.0) / z, 6 * 0x1p-24);
  std::vector<float> narrow = {0, 1, -3};
  to_probabilities(narrow, 0, DType::bfloat16);  // 0 counts as 1
  for (const float p : narrow) EXPECT_EQ(p, rounded_to(DType::bfloat16, p));
  EXPECT_NEAR(narrow[1], 1 / z, 0x1p-8);
}

Request probability_rows() {
  Request request;
  request.input = RowInput::probabilities;
  request.rows = 2;
  request.vocab = 4;
  request.logits = {0.5F, 0.25F, 0.25F, 0, 0, 0, 8, 4};  // in any scale
  request.parameters.assign(2, {});
  request.seed = {1, 2};
  request.offset = {0, 0};
  return request;
}

TEST(BuiltinSamplers, TakeProbabilitiesOneOperationAtATime) {
  for (const std::string& name : builtin_sampler_names()) {
    if (name == "model") continue;  // the model takes only all filters together
    const auto sampler = make_builtin_sampler(name);
    Request request = probability_rows();
    EXPECT_EQ(missing_ability(sampler->description(), request), "");
    EXPECT_TRUE(run_request(*sampler, request, {.statuses = true}).ran()) << name;
    request.parameters[0].min_p = 0.1F;
    request.parameters[1].top_k = 2;
    EXPECT_NE(missing_ability(sampler->description(), request), "");
    EXPECT_EQ(run_request(*sampler, request, {}).refused,
              "no operation on probabilities combines min_p with top_k or top_p");
    request = probability_rows();
    request.tie_rule = TieRule::lowest_id;
    EXPECT_NE(run_request(*sampler, request, {}).refused, "");
    request = probability_rows();
    request.words = {0, 0};
    EXPECT_EQ(run_request(*sampler, request, {}).refused, "takes no random words");
    EXPECT_NE(run_request(*sampler, probability_rows(), {.mask = true}).refused, "");
    EXPECT_FALSE(reported(sampler->description(), probability_rows(), {.mask = true}).mask);
  }
}

CheckOutcome judge(Sampler& sampler, CheckOutcome (*check)(const CheckInput&), Family family,
                   const std::vector<reference::RowParameters>& parameters) {
  const auto logits = family_source(family, 4, 100, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = parameters;
  input.rows = 12;
  input.draws = 1200;
  input.row_input = RowInput::probabilities;
  input.seed = 6;
  return check(input);
}

// If top_p equals a partial sum of 1/2, the next token does not belong to the nucleus.
TEST(Probabilities, EqualityAtAPartialSumIsSeen) {
  struct AtMost : ModelSampler {
    reference::IntegerRow model(const Row& row) override {
      Row wider = row;
      wider.parameters.top_p = std::nextafter(row.parameters.top_p, 1.0F);
      return ModelSampler::model(wider);
    }
  };
  const std::vector<reference::RowParameters> half = {
      {.temperature = kDyadicTemperature, .top_p = 0.5F}};
  for (const auto check : {check_tokens, check_support}) {
    AtMost wrong;
    EXPECT_TRUE(judge(wrong, check, Family::mass_exactly_p, half).failed());
    ModelSampler right;
    const CheckOutcome outcome = judge(right, check, Family::mass_exactly_p, half);
    EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  }
}

TEST(Probabilities, NegativeOnesMustBeRefused) {
  struct TakesThem : ModelSampler {
    reference::IntegerRow model(const Row& row) override {
      Row changed = row;
      for (float& p : changed.logits) p = std::max(p, 0.0F);
      return ModelSampler::model(changed);
    }
  };
  TakesThem wrong;
  const CheckOutcome outcome = judge(wrong, check_status, Family::gaussian, {{.top_k = 5}});
  EXPECT_TRUE(outcome.failed());
  EXPECT_NE(outcome.message.find("probability -"), std::string::npos) << outcome.message;
}

TEST(Probabilities, ChecksOfLogitsAreSkipped) {
  for (const auto check : {check_mask, check_probabilities}) {
    ModelSampler sampler;
    EXPECT_STREQ(to_string(judge(sampler, check, Family::gaussian, {{}}).verdict), "skipped");
  }
}

}  // namespace
}  // namespace fairdraw::harness
