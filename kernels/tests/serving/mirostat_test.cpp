// Mirostat is tested on numbers by hand, and in the loop of an engine on rows with known laws.
#include "fairdraw/mirostat.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "fairdraw/sample.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Mirostat at(double mu) {
  Mirostat state;
  state.mu = mu;
  return state;
}

TEST(Mirostat, TheCutoffIsTheProbabilityOfTheSurprise) {
  EXPECT_EQ(mirostat_cutoff(at(2)), 0.25F);
  EXPECT_EQ(mirostat_cutoff(at(0)), 1.0F);
  EXPECT_EQ(mirostat_cutoff(at(-3)), 1.0F);
  EXPECT_EQ(mirostat_cutoff(at(149)), 0x1p-149F);
  EXPECT_EQ(mirostat_cutoff(at(200)), 0.0F) << "no token is too surprising";
}

TEST(Mirostat, ATokenMovesMuByItsSurprise) {
  Mirostat state = at(10);
  const auto quarter = static_cast<float>(std::log(0.25));
  ASSERT_FALSE(observe_surprise(state, quarter));
  // mu - eta (2 - tau) = 10 + 0.3; the float32 of -ln 4 is off by at most 2^-24 of it, and the
  // surprise of 2 so by 2^-23 bits.
  EXPECT_NEAR(state.mu, 10.3, 0.1 * 0x1p-23);
  ASSERT_FALSE(observe_surprise(state, -0.0F));
  EXPECT_NEAR(state.mu, 10.8, 0.1 * 0x1p-23);
}

TEST(Mirostat, BadValuesChangeNothing) {
  for (const float bad : {0.1F, -kInfinity, kInfinity, std::nanf("")}) {
    Mirostat state = at(3);
    const Error error = observe_surprise(state, bad);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << bad;
    EXPECT_NE(error.message.find("logprob_filtered is "), std::string::npos) << error.message;
    EXPECT_EQ(state.mu, 3);
  }
  Mirostat state = at(std::nan(""));
  EXPECT_EQ(observe_surprise(state, -1).message, "mu is nan; allowed: a finite number");
  std::int32_t top_k = -7;
  const auto message = [&](const Mirostat& of, std::vector<float> largest, std::int64_t vocab) {
    const Error error = mirostat_top_k(of, {largest.data(), std::ssize(largest)}, vocab, top_k);
    EXPECT_EQ(top_k, -7);
    return error.message;
  };
  EXPECT_EQ(message(at(1), {-1}, 5), "length of largest is 1; allowed: >= 2");
  const std::string order =
      "; allowed: log-probabilities in decreasing order, the first one finite";
  EXPECT_EQ(message(at(1), {-1, -0.5F}, 5), "largest[1] is -0.5" + order);
  EXPECT_EQ(message(at(1), {-kInfinity, -kInfinity}, 5), "largest[0] is -inf" + order);
  EXPECT_EQ(message(at(1), {-1, -2}, 0), "vocab is 0; allowed: 1 to 1048576");
  EXPECT_EQ(message(at(kInfinity), {-1, -2}, 5), "mu is inf; allowed: a finite number");
}

// The probabilities are proportional to 1 / place^2, so that the exponent is 2 and epsilon 1: k is
// the root of 2^mu / (1 - 1 / vocab). The logarithms are float32 with errors below 2^-21, and the
// quotients of neighbours are at least ln(100 / 99), so that the exponent is exact to 2^-14, and k
// to 2^-10 of itself; the roots below lie farther from integers.
TEST(Mirostat, TopKFollowsZipfsLaw) {
  std::vector<float> largest;
  for (int place = 1; place <= 100; ++place) {
    largest.push_back(static_cast<float>(-2 * std::log(place) - 1));
  }
  for (const auto& [mu, expected] : std::vector<std::pair<double, std::int32_t>>{
           {6.2, 8},    // sqrt(73.5 / (1 - 1/1000)) = 8.58
           {0.5, 1},    // sqrt(1.41) = 1.19
           {-9, 1},     // at least one
           {12.6, 78},  // sqrt(6208.4 / (1 - 1/1000)) = 78.8
           {30, 1000}}) {
    std::int32_t top_k = 0;
    ASSERT_FALSE(mirostat_top_k(at(mu), {largest.data(), 100}, 1000, top_k));
    EXPECT_EQ(top_k, expected) << mu;
  }
  std::int32_t top_k = 0;
  const std::array<float, 3> equal = {-1, -1, -1};
  ASSERT_FALSE(mirostat_top_k(at(3), {equal.data(), 3}, 1000, top_k));
  EXPECT_EQ(top_k, 1000) << "no law can be seen";
  const std::array<float, 3> few = {-1, -2, -kInfinity};
  ASSERT_FALSE(mirostat_top_k(at(3), {few.data(), 3}, 1000, top_k));
  // The exponent is 1 / ln 2 = 1.4427, and k = (0.4427 * 8 / (1 - 1000^-0.4427))^(ln 2) = 2.49.
  EXPECT_EQ(top_k, 2);
}

// Each update adds eta (tau - surprise), so that the surprises of n tokens have a mean of tau -
// (mu_n - mu_0) / (eta n). A row of 4096 tokens with Zipf's law has surprises of up to 14 bits.
TEST(Mirostat, TheMeanSurpriseComesToTheTarget) {
  constexpr std::int64_t kVocab = 4096;
  constexpr int kSteps = 1500;
  std::vector<float> logits(kVocab);
  for (std::int64_t id = 0; id < kVocab; ++id) {
    logits[static_cast<std::size_t>(id)] = -1.1F * std::log(static_cast<float>(id + 1));
  }
  Mirostat state;
  state.tau = 3;
  state.mu = 6;
  double sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    const float cutoff = mirostat_cutoff(state);
    SampleRequest request;
    request.logits = {logits.data(), DType::float32, 1, kVocab, kVocab};
    request.processing.filter_chain = filter_chain_of({FilterStep::epsilon_cutoff});
    request.processing.epsilon_cutoff = cutoff;
    request.seed = std::uint64_t{5};
    request.offset = static_cast<std::uint64_t>(step);
    std::int32_t token = -1;
    float logprob = 1;
    SampleResult result;
    result.tokens = {&token, 1};
    result.logprob_filtered = {&logprob, 1};
    ASSERT_FALSE(sample(request, result));
    ASSERT_FALSE(observe_surprise(state, logprob));
    sum += -static_cast<double>(logprob) / std::log(2.0);
  }
  const double mean = sum / kSteps;
  // Sums of 1500 doubles of at most 14 have rounding errors below 1500 * 21000 * 2^-53.
  EXPECT_NEAR(mean, 3 - (state.mu - 6) / (0.1 * kSteps), 1e-8);
  // mu stays between the surprise of the likeliest token and that of the rarest, give or take one
  // step: |mu_n - mu_0| < 14, so that the mean is within 14 / 150 of the target.
  EXPECT_LT(std::abs(state.mu - 6), 14);
  EXPECT_LT(std::abs(mean - 3), 14.0 / (0.1 * kSteps));
}

}  // namespace
}  // namespace fairdraw::suites
