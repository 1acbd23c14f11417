// Tests the intervals of operations: they contain the results of correct arithmetic, and they are
// at most as wide as the errors that they allow for.
#include "reference/operation_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "reference/float32_bound.h"
#include "reference/profiles.h"

namespace fairdraw::reference {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

Semantics float32_semantics(std::size_t vocab) {
  return in_float32(fairdraw_profile(), {.additions = sequential_additions(vocab)});
}

WeightBound float32_weights() { return kFloat32Weights; }

std::vector<float> random_logits(std::mt19937& random, std::size_t vocab, float scale) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = normal(random);
  if (vocab > 3) logits[1] = kMinusInfinity;
  return logits;
}

template <class Real>
std::vector<double> softmax_of(const std::vector<float>& logits, float temperature) {
  const Real t = static_cast<Real>(temperature);
  const Real largest = static_cast<Real>(*std::ranges::max_element(logits)) / t;
  std::vector<Real> terms;
  for (const float x : logits) terms.push_back(std::exp(static_cast<Real>(x) / t - largest));
  const Real sum = std::accumulate(terms.begin(), terms.end(), Real(0));
  std::vector<double> result;
  for (const Real term : terms) result.push_back(static_cast<double>(term / sum));
  return result;
}

void expect_within(const std::vector<double>& values, const ResultIntervals& intervals,
                   const char* what) {
  for (std::size_t id = 0; id < values.size(); ++id) {
    EXPECT_GE(values[id], intervals.low[id]) << what << ", token " << id;
    EXPECT_LE(values[id], intervals.high[id]) << what << ", token " << id;
  }
}

TEST(OperationBound, SoftmaxOfFloatsAndDoublesIsWithin) {
  std::mt19937 random(7);
  for (const std::size_t vocab : {1U, 2U, 31U, 1000U, 20000U}) {
    for (const float temperature : {1.0F, 0.05F, 1e-3F, 5.0F, 0x1p64F}) {
      const std::vector<float> logits = random_logits(random, vocab, 3);
      const Semantics semantics = float32_semantics(vocab);
      const ResultIntervals intervals = softmax_intervals(
          logits, static_cast<double>(temperature), semantics, float32_weights(), DType::float32);
      const std::vector<double> wide = softmax_of<double>(logits, temperature);
      const std::vector<double> narrow = softmax_of<float>(logits, temperature);
      expect_within(wide, intervals, "double");
      expect_within(narrow, intervals, "float");
      for (const auto& values : {wide, narrow}) {
        const double sum = std::accumulate(values.begin(), values.end(), 0.0);
        EXPECT_LE(std::abs(sum - 1), intervals.row_sum);
      }
      EXPECT_EQ(intervals.high[std::min<std::size_t>(1, vocab - 1)] == 0, vocab > 3);
    }
  }
}

// For n equal logits every weight is 1 +- w, the sum is off by a factor 1 +- G, and the quotient is
// rounded. The interval is at most as wide as 4 w + 2 G + 2 u and the products of these, which are
// below 1 % of the width.
TEST(OperationBound, IntervalsAreAsWideAsTheirErrors) {
  const std::vector<float> alike(64, 2.5F);
  const Semantics semantics = float32_semantics(alike.size());
  const ResultIntervals intervals =
      softmax_intervals(alike, 1, semantics, float32_weights(), DType::float32);
  const double width = 64 * (intervals.high[0] - intervals.low[0]);
  const double errors =
      4 * semantics.relative_weight_error + 2 * semantics.relative_sum_error + 2 * 0x1p-24;
  EXPECT_LE(width, 1.01 * errors);
  EXPECT_GE(width, 0.99 * errors);
}

TEST(OperationBound, LogSoftmaxIsWithinAndItsWrongBaseIsNot) {
  std::mt19937 random(8);
  for (const std::size_t vocab : {1U, 2U, 31U, 1000U}) {
    const std::vector<float> logits = random_logits(random, vocab, 10);
    const ResultIntervals intervals =
        log_softmax_intervals(logits, float32_semantics(vocab), float32_weights(), DType::float32);
    const float largest = *std::ranges::max_element(logits);
    float sum = 0;
    for (const float x : logits) sum += std::exp(x - largest);
    for (std::size_t id = 0; id < vocab; ++id) {
      const auto value = static_cast<double>((logits[id] - largest) - std::log(sum));
      if (logits[id] == kMinusInfinity) {
        EXPECT_EQ(intervals.high[id], -std::numeric_limits<double>::infinity());
        continue;
      }
      EXPECT_GE(value, intervals.low[id]);
      EXPECT_LE(value, intervals.high[id]);
      if (vocab > 1) {
        EXPECT_LT(value * 1.4427, intervals.low[id]);
      }
    }
  }
}

TEST(OperationBound, RenormalisedProbabilitiesAreWithinWhateverTheirScale) {
  std::mt19937 random(9);
  for (const double scale : {1.0, 0x1p-5, 8.0}) {
    const std::vector<double> softmax = softmax_of<double>(random_logits(random, 500, 2), 1);
    std::vector<float> probs;
    std::vector<std::uint8_t> kept;
    double sum = 0;
    for (std::size_t id = 0; id < softmax.size(); ++id) {
      probs.push_back(static_cast<float>(softmax[id] * scale));
      kept.push_back(id % 3 == 0 ? 1 : 0);
      if (kept.back() != 0) sum += static_cast<double>(probs.back());
    }
    const ResultIntervals intervals =
        renorm_intervals(probs, kept, float32_semantics(probs.size()), false, DType::float32);
    std::vector<double> values;
    for (std::size_t id = 0; id < probs.size(); ++id) {
      values.push_back(kept[id] != 0 ? static_cast<double>(
                                           static_cast<float>(static_cast<double>(probs[id]) / sum))
                                     : 0);
    }
    expect_within(values, intervals, "kept");
    const std::size_t largest =
        static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
    EXPECT_GT(values[largest] * 1.001, intervals.high[largest]);  // 1000 times the error
  }
}

TEST(OperationBound, NarrowResultsHaveTheirOwnRounding) {
  const std::vector<float> logits = {1, 0.3F, -2};
  const ResultIntervals wide =
      softmax_intervals(logits, 1, float32_semantics(3), float32_weights(), DType::float32);
  const ResultIntervals narrow =
      softmax_intervals(logits, 1, float32_semantics(3), float32_weights(), DType::bfloat16);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double value = (wide.low[id] + wide.high[id]) / 2;
    // The bound in units of 2^-24 consists of 5 for each weight, 6 for three sums, 3 (2 + 1) + 3 *
    // 3 for scaling and distance on either side, and 1 for the result.
    EXPECT_LE(wide.high[id], value * (1 + (2 * 5 + 6 + 2 * 18 + 1) * 0x1p-24));
    EXPECT_GE(narrow.high[id], value * (1 + 0x1p-8));
    EXPECT_LE(narrow.high[id], value * (1 + 0x1.1p-8));
  }
}

}  // namespace
}  // namespace fairdraw::reference
