// The expected values of llama.cpp's own tests of its samplers (tests/test-sampling.cpp at
// 07e4038f) are known answers here. Left out are its temperatures and its queues of samplers, which
// are no filters; a min_p above 1, which fails here; a top_p of 0.8 and of 0.7, which are sums of
// the row's own probabilities, so that the last bits of logarithms decide; and a frequency penalty
// whose answer rounds to 0. The coin of xtc always excludes here, with 0.99 there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/processing_arrays.h"

namespace fairdraw::suites {
namespace {

using reference::RowProcessing;
using Probabilities = std::vector<float>;

struct Filters {
  std::int32_t top_k = 0;
  float top_p = 1.0F;
  float min_p = 0.0F;
};

/// Returns the probabilities that the steps leave, renormalised.
Probabilities left_of(const Probabilities& probabilities, const RowProcessing& row,
                      const Filters& filters) {
  std::vector<float> logits;
  for (const float p : probabilities) logits.push_back(std::log(p));
  const auto vocab = static_cast<std::int64_t>(logits.size());
  const harness::ProcessingArrays arrays = harness::pack(std::span(&row, 1), vocab);
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, 1, vocab, vocab};
  request.processing = arrays.view();
  request.top_k = filters.top_k;
  request.top_p = filters.top_p;
  request.min_p = filters.min_p;
  request.seed = std::uint64_t{1};
  std::int32_t token = -1;
  Probabilities left(logits.size());
  SampleResult result;
  result.tokens = {&token, 1};
  result.probs = {left.data(), 1, vocab};
  const Error error = sample(request, result);
  EXPECT_FALSE(error) << error.message;
  return left;
}

/// The expected values have six digits, and float32 has an error of less than a unit more.
constexpr float kLastDigit = 1e-6F;

void expect(const Probabilities& given, const Probabilities& expected, const RowProcessing& row,
            const Filters& filters = {}) {
  const Probabilities left = left_of(given, row, filters);
  float total = 0;  // some of the expected values are not normalised
  for (const float p : expected) total += p;
  ASSERT_EQ(left.size(), expected.size());
  for (std::size_t id = 0; id < expected.size(); ++id) {
    EXPECT_EQ(left[id] == 0, expected[id] == 0) << id;
    EXPECT_NEAR(left[id], expected[id] / total, kLastDigit) << id;
  }
}

const Probabilities kRising = {0.1F, 0.2F, 0.3F, 0.4F};

TEST(LlamaCppAnswers, TopK) {
  expect(kRising, {0, 0, 0, 1}, {}, {.top_k = 1});
  expect(kRising, {0, 0.22222F, 0.33333F, 0.44444F}, {}, {.top_k = 3});
  expect(kRising, kRising, {}, {.top_k = 4});
  expect(kRising, kRising, {}, {.top_k = 0});
}

TEST(LlamaCppAnswers, TopP) {
  expect(kRising, {0, 0, 0, 1}, {}, {.top_p = 0});
  expect(kRising, kRising, {}, {.top_p = 1});
}

TEST(LlamaCppAnswers, MinP) {
  for (const float all : {0.0F, 0.24F}) expect(kRising, kRising, {}, {.min_p = all});
  for (const float three : {0.26F, 0.49F}) {
    expect(kRising, {0, 0.2F, 0.3F, 0.4F}, {}, {.min_p = three});
  }
  for (const float two : {0.51F, 0.74F}) expect(kRising, {0, 0, 0.3F, 0.4F}, {}, {.min_p = two});
  for (const float one : {0.76F, 1.0F}) expect(kRising, {0, 0, 0, 1}, {}, {.min_p = one});
}

TEST(LlamaCppAnswers, Xtc) {
  const Probabilities falling = {0.4F, 0.3F, 0.2F, 0.1F};
  RowProcessing row;
  row.xtc_probability = 1;
  row.xtc_threshold = 0.09F;
  expect(falling, {0, 0, 0, 0.1F}, row);
  row.xtc_threshold = 0.19F;
  expect(falling, {0, 0, 0.2F, 0.1F}, row);
  row.xtc_threshold = 0.29F;
  expect(falling, {0, 0.3F, 0.2F, 0.1F}, row);
  row.xtc_threshold = 0.39F;
  expect(falling, falling, row);
}

TEST(LlamaCppAnswers, Typical) {
  RowProcessing row;
  row.typical_p = 0.5F;
  expect({0.97F, 0.01F, 0.01F, 0.01F}, {0.97F, 0, 0, 0}, row);
  expect({0.4F, 0.2F, 0.2F, 0.2F}, {0, 0.2F, 0.2F, 0.2F}, row);
}

TEST(LlamaCppAnswers, TopNSigma) {
  RowProcessing row;
  row.top_n_sigma = 1;
  expect(kRising, {0, 0, 0.428571F, 0.571429F}, row);
  for (const float all : {0.0F, 3.0F}) {
    row.top_n_sigma = all;
    expect(kRising, kRising, row);
  }
}

TEST(LlamaCppAnswers, PLess) {
  RowProcessing row;
  row.p_less = 1;
  expect({0.1F, 0.15F, 0.2F, 0.25F, 0.3F}, {0, 0, 0, 0.45454545F, 0.54545455F}, row);
  const Probabilities equal(5, 0.2F);
  expect(equal, equal, row);
}

TEST(LlamaCppAnswers, RepetitionPenalty) {
  const Probabilities equal(5, 0.2F);
  RowProcessing row;
  row.repetition_penalty = 50;
  // 0.2^50 is 1e-35, which the expected values round to 0.
  const auto expect_banned = [&](std::vector<std::int32_t> output, const Probabilities& expected) {
    row.output = std::move(output);
    const Probabilities left = left_of(equal, row, {});
    for (std::size_t id = 0; id < expected.size(); ++id) {
      EXPECT_NEAR(left[id], expected[id], kLastDigit) << id;
    }
  };
  expect_banned({0}, {0, 0.25F, 0.25F, 0.25F, 0.25F});
  expect_banned({0, 1, 2}, {0, 0, 0, 0.5F, 0.5F});
  expect_banned({0, 1, 2, 0, 0}, {0, 0, 0, 0.5F, 0.5F});
}

TEST(LlamaCppAnswers, FrequencyAndPresencePenalty) {
  const Probabilities equal(5, 0.2F);
  RowProcessing row;
  row.frequency_penalty = row.presence_penalty = 5;
  row.output = {0};
  expect(equal, {0.000011F, 0.249997F, 0.249997F, 0.249997F, 0.249997F}, row);
  row.output = {0, 1, 2};
  expect(equal, {0.000023F, 0.000023F, 0.000023F, 0.499966F, 0.499966F}, row);
}

TEST(LlamaCppAnswers, Dry) {
  const auto dry = [](std::vector<std::int32_t> output, float multiplier,
                      std::int32_t allowed_length) {
    RowProcessing row;
    row.output = std::move(output);
    row.dry_multiplier = multiplier;
    row.dry_base = 1.1F;
    row.dry_allowed_length = allowed_length;
    return row;
  };
  const Probabilities four(4, 0.25F), five(5, 0.2F);
  expect(four, four, dry({0, 1}, 1, 2));
  expect(four, {0.296923F, 0.296923F, 0.109232F, 0.296923F}, dry({0, 1, 2, 0, 1}, 1, 2));
  RowProcessing broken = dry({0, 1, 3, 4, 0, 1}, 1, 2);
  broken.dry_breakers = {3};
  expect(five, five, broken);
  expect(five, {0.241818F, 0.241818F, 0.032727F, 0.241818F, 0.241818F}, dry({0, 1, 2, 0, 1}, 2, 2));
  expect(five, five, dry({0, 1, 2, 3, 4, 0, 1}, 1, 4));
}

}  // namespace
}  // namespace fairdraw::suites
