// Adaptive-p is tested on numbers by hand, and in the loop of an engine against llama.cpp's sums.
#include "fairdraw/adaptive_p.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "fairdraw/sample.h"

namespace fairdraw::suites {
namespace {

TEST(AdaptiveP, TheTargetMovesAgainstTheMean) {
  EXPECT_EQ(adapted_target({0.5, 0.9, 0.5}), 0.5F);
  EXPECT_EQ(adapted_target({0.5, 0.9, 0.625}), 0.375F);
  EXPECT_EQ(adapted_target({0.25, 0.9, 0.125}), 0.375F);
}

TEST(AdaptiveP, TheTargetStaysAProbability) {
  EXPECT_EQ(adapted_target({0.25, 0.9, 0.75}), 0.0F) << "-1/4";
  EXPECT_EQ(adapted_target({0.75, 0.9, 0.25}), 1.0F) << "5/4";
  EXPECT_EQ(adapted_target({0, 0.9, 0}), 0.0F);
  EXPECT_EQ(adapted_target({1, 0.9, 1}), 1.0F);
}

TEST(AdaptiveP, ATargetBelowZeroIsOff) {
  AdaptiveP state;
  EXPECT_EQ(adapted_target(state), -1.0F);
  EXPECT_FALSE(observe_probability(state, 0.5F));
  EXPECT_EQ(state.mean, -1);
  EXPECT_EQ(adapted_target({std::nan(""), 0.9, 0.5}), -1.0F);
}

TEST(AdaptiveP, ATokenMovesTheMean) {
  AdaptiveP state{0.5, 0.75, 0.5};
  ASSERT_FALSE(observe_probability(state, 1));
  EXPECT_EQ(state.mean, 0.625);  // 3/4 of 1/2, and 1/4
  ASSERT_FALSE(observe_probability(state, 0));
  EXPECT_EQ(state.mean, 0.46875);
  state.decay = 0;
  ASSERT_FALSE(observe_probability(state, 0.125F));
  EXPECT_EQ(state.mean, 0.125) << "no earlier token counts";
}

TEST(AdaptiveP, BadValuesChangeNothing) {
  const auto message = [](AdaptiveP state, float probability) {
    const double before = state.mean;
    const Error error = observe_probability(state, probability);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_TRUE(state.mean == before || std::isnan(before));
    return error.message;
  };
  const double nan = std::nan("");
  EXPECT_EQ(message({0.5, 0.9, 0.5}, 1.5F), "probability is 1.5; allowed: 0 to 1");
  EXPECT_EQ(message({0.5, 0.9, 0.5}, std::nanf("")), "probability is nan; allowed: 0 to 1");
  EXPECT_EQ(message({1.5, 0.9, 0.5}, 0.5F), "target is 1.5; allowed: below 0, or 0 to 1");
  EXPECT_EQ(message({nan, 0.9, 0.5}, 0.5F), "target is nan; allowed: below 0, or 0 to 1");
  EXPECT_EQ(message({0.5, 1, 0.5}, 0.5F), "decay is 1; allowed: 0 to 0.99");
  EXPECT_EQ(message({0.5, -0.5, 0.5}, 0.5F), "decay is -0.5; allowed: 0 to 0.99");
  EXPECT_EQ(message({0.5, 0.9, -1}, 0.5F), "mean is -1; allowed: 0 to 1");
}

/// Draws a token of a row, and returns the probability that it had before adaptive_p.
class Engine {
 public:
  explicit Engine(const std::vector<float>& logits) {
    const auto vocab = static_cast<std::int64_t>(logits.size());
    request_.logits = {logits.data(), DType::float32, 1, vocab, vocab};
    request_.seed = std::uint64_t{5};
    request_.processing.filter_chain =
        filter_chain_of({FilterStep::top_k, FilterStep::temperature, FilterStep::adaptive_p});
    request_.processing.chain_top_k = kTopK;
    request_.processing.chain_temperature = kTemperature;
  }

  float probability_of_next(const AdaptiveP& state, std::int32_t& token) {
    request_.offset = step_++;
    request_.temperature = 1.0F;
    request_.processing.adaptive_target = adapted_target(state);
    SampleResult result;
    result.tokens = {&token, 1};
    EXPECT_FALSE(sample(request_, result));
    request_.temperature = kTemperature;
    request_.processing.adaptive_target = -1.0F;
    float logprob = 1;
    LogprobsResult values;
    values.mode = LogprobsMode::processed_logprobs;
    values.values = {&logprob, 1};
    EXPECT_FALSE(log_probabilities(request_, {&token, 1}, values));
    return std::exp(logprob);
  }

  static constexpr std::int32_t kTopK = 32;
  static constexpr float kTemperature = 0.5F;

 private:
  SampleRequest request_;
  std::uint64_t step_ = 0;
};

// The tokens have Zipf's law, with the exponent 1.1 / T = 2.2 among the first 32. The sums are
// those of llama.cpp, of the probabilities that the law has. A log-probability, at most 9 away from
// 0, has an error below 2^-20, and so has its exponential, relatively, with the rounding of logits
// below 8 (2^-22, by T); a mean of probabilities has no more.
TEST(AdaptiveP, TheMeanIsThatOfTheProbabilitiesBeforeTheStep) {
  std::vector<float> logits;
  std::vector<double> law;
  double total = 0;
  for (int place = 1; place <= 200; ++place) {
    logits.push_back(static_cast<float>(-1.1 * std::log(place)));
    law.push_back(place <= Engine::kTopK ? std::pow(place, -2.2) : 0);
    total += law.back();
  }
  for (const double target : {0.05, 0.3, 0.6}) {
    Engine engine(logits);
    AdaptiveP state{target, 0.9, target};
    double weighted_sum = target / (1 - 0.9), total_weight = 1 / (1 - 0.9);
    int drawn_first = 0;
    for (int step = 0; step < 500; ++step) {
      std::int32_t token = -1;
      const float probability = engine.probability_of_next(state, token);
      ASSERT_FALSE(observe_probability(state, probability));
      ASSERT_GE(token, 0);
      ASSERT_LT(token, Engine::kTopK);
      weighted_sum = law[static_cast<std::size_t>(token)] / total + 0.9 * weighted_sum;
      total_weight = 1 + 0.9 * total_weight;
      ASSERT_NEAR(state.mean, weighted_sum / total_weight, 0x1p-18) << step;
      drawn_first += token == 0 ? 1 : 0;
    }
    // The first token has 0.67, and the next one 0.15, so that the first one is nearer to targets
    // above 0.41, and is drawn more often there than the law says.
    EXPECT_EQ(drawn_first > 500 * law[0] / total, target > 0.41) << target << ", " << drawn_first;
  }
}

}  // namespace
}  // namespace fairdraw::suites
