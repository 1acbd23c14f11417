// Tests that the real-number oracle judges a sampler like those of engines, in float32 and with its
// own generator, under its profile: a right sampler passes, and a wrong one fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "harness/run/checks/checks.h"

namespace fairdraw::harness {
namespace {

// A sampler as the profile hf describes it: temperature, top_k with ties, top_p from the small end
// of a sort, softmax, and one uniform random number.
class FloatSampler : public Sampler {
 public:
  explicit FloatSampler(bool drops_crossing_token) : drops_crossing_token_(drops_crossing_token) {
    description_.name = "float";
    description_.semantics = "hf";
    description_.num_samples = true;
    description_.reports_mask = true;
    description_.reports_support = true;
  }
  const SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const float* const logits = static_cast<const float*>(batch.logits) + row * batch.row_stride;
      const std::vector<float> probs = filtered(batch, row, logits);
      std::int32_t size = 0;
      for (std::int64_t id = 0; id < batch.vocab; ++id) {
        const bool kept = probs[static_cast<std::size_t>(id)] > 0;
        size += kept ? 1 : 0;
        if (batch.mask == nullptr) continue;
        std::uint32_t& word = batch.mask[row * batch.mask_stride + id / 32];
        word = id % 32 == 0 ? 0 : word;
        word |= (kept ? 1U : 0U) << (id % 32);
      }
      if (batch.support_size != nullptr) batch.support_size[row] = size;
      std::discrete_distribution<std::int32_t> draw(probs.begin(), probs.end());
      for (std::int32_t i = 0; i < batch.num_samples; ++i) {
        batch.tokens[row * batch.num_samples + i] = draw(generator_);
      }
    }
    return {};
  }

 private:
  static std::vector<float> softmax(const std::vector<float>& scores) {
    const float largest = *std::max_element(scores.begin(), scores.end());
    std::vector<float> probs(scores.size());
    float sum = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      sum += probs[i] = std::exp(scores[i] - largest);
    }
    for (float& p : probs) p /= sum;
    return probs;
  }

  std::vector<float> filtered(const fairdraw_batch& batch, std::int64_t row,
                              const float* logits) const {
    std::vector<float> scores(logits, logits + batch.vocab);
    for (float& score : scores) score /= batch.temperature[row];
    std::vector<float> sorted = scores;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const auto k = static_cast<std::size_t>(std::min<std::int64_t>(batch.top_k[row], batch.vocab));
    for (float& score : scores) {
      if (score < sorted[k - 1]) score = -INFINITY;
    }
    std::vector<float> probs = softmax(scores);
    if (batch.top_p[row] >= 1) return probs;
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&probs](std::size_t a, std::size_t b) { return probs[a] < probs[b]; });
    float cumulative = 0;
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      cumulative += probs[order[i]];
      const bool crosses = cumulative > 1 - batch.top_p[row];
      if (!crosses) scores[order[i]] = -INFINITY;
      if (crosses && drops_crossing_token_) scores[order[i]] = -INFINITY;
      if (crosses) break;
    }
    return softmax(scores);
  }

  bool drops_crossing_token_;
  SamplerDescription description_;
  std::mt19937_64 generator_{20};  // NOLINT: a fixed seed is the point
};

CheckOutcome judge(CheckOutcome (*check)(const CheckInput&), bool drops_crossing_token) {
  FloatSampler sampler(drops_crossing_token);
  const auto logits = family_source(Family::gaussian, 4, 200, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("hf");
  input.logits = logits.get();
  input.parameters = {{.top_k = 100, .top_p = 0.9F}, {.temperature = 0.8F, .top_k = 150}};
  input.rows = check == check_pit ? 5120 : 40;
  input.draws = check == check_chi_squared || check == check_bets || check == check_binomial
                    ? 100'000
                    : 51'200;
  input.declared_discrepancy = 0.05;
  input.seed = 3;
  input.false_fail_rate = 4.8e-13;
  return check(input);
}

TEST(FloatSampler, PassesUnderItsProfile) {
  for (const auto check :
       {check_mask, check_support, check_chi_squared, check_bets, check_binomial, check_pit}) {
    const CheckOutcome outcome = judge(check, false);
    EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  }
}

TEST(FloatSampler, FailsWithTheCrossingTokenDropped) {
  EXPECT_STREQ(to_string(judge(check_mask, true).verdict), "failed");
}

// The profile refuses NaN, but this sampler does not check for NaN.
TEST(FloatSampler, FailsWithBadRowsThatItsProfileRefuses) {
  const CheckOutcome outcome = judge(check_status, false);
  EXPECT_STREQ(to_string(outcome.verdict), "failed");
  EXPECT_TRUE(outcome.message.starts_with("NaN at id 0")) << outcome.message;
}

TEST(FloatSampler, IsNotAskedForWhatItDoesNotClaim) {
  for (const auto check : {check_tokens, check_replay, check_metamorphic, check_float_environment,
                           check_probabilities}) {
    const CheckOutcome outcome = judge(check, false);
    EXPECT_STREQ(to_string(outcome.verdict), "skipped") << outcome.message;
    EXPECT_FALSE(outcome.message.empty());
  }
}

}  // namespace
}  // namespace fairdraw::harness
