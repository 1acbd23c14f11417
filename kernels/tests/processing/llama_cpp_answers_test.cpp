// The expected values of llama.cpp's own tests of its samplers (tests/test-sampling.cpp at
// 07e4038f) are known answers here, and its queues of samplers are filter chains. Left out are a
// min_p above 1, which fails here, and a top_p of 0.7, which is a sum of the row's own
// probabilities, so that the last bits of logarithms decide. The coin of xtc always excludes here,
// with 0.99 there. Token 0 of a queue has the logit -inf, which no sampler here keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
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
  float temperature = 1.0F;
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
  request.temperature = filters.temperature;
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

TEST(LlamaCppAnswers, Temperature) {
  RowProcessing following;  // a range of 0 leaves the temperature as it is
  following.dynatemp_range = 0;
  following.dynatemp_exponent = 1;
  for (const RowProcessing& row : {RowProcessing{}, following}) {
    expect(kRising, kRising, row, {.temperature = 1});
    expect(kRising, {0, 0, 0, 1}, row, {.temperature = 0});
  }
}

TEST(LlamaCppAnswers, TopK) {
  expect(kRising, {0, 0, 0, 1}, {}, {.top_k = 1});
  expect(kRising, {0, 0.22222F, 0.33333F, 0.44444F}, {}, {.top_k = 3});
  expect(kRising, kRising, {}, {.top_k = 4});
  expect(kRising, kRising, {}, {.top_k = 0});
}

TEST(LlamaCppAnswers, TopP) {
  expect(kRising, {0, 0, 0, 1}, {}, {.top_p = 0});
  expect(kRising, {0, 0.22222F, 0.33333F, 0.44444F}, {}, {.top_p = 0.8F});
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

// Expects probabilities of which those that are too small for six digits are given as 0.
void expect_rounded(const RowProcessing& row, const Probabilities& expected) {
  const Probabilities left = left_of(Probabilities(5, 0.2F), row, {});
  for (std::size_t id = 0; id < expected.size(); ++id) {
    EXPECT_NEAR(left[id], expected[id], kLastDigit) << id;
  }
}

TEST(LlamaCppAnswers, RepetitionPenalty) {
  RowProcessing row;
  row.repetition_penalty = 50;  // 0.2^50 is 1e-35
  row.output = {0};
  expect_rounded(row, {0, 0.25F, 0.25F, 0.25F, 0.25F});
  row.output = {0, 1, 2};
  expect_rounded(row, {0, 0, 0, 0.5F, 0.5F});
  row.output = {0, 1, 2, 0, 0};
  expect_rounded(row, {0, 0, 0, 0.5F, 0.5F});
}

TEST(LlamaCppAnswers, FrequencyAndPresencePenalty) {
  const Probabilities equal(5, 0.2F);
  RowProcessing row;
  row.frequency_penalty = row.presence_penalty = 5;
  row.output = {0};
  expect(equal, {0.000011F, 0.249997F, 0.249997F, 0.249997F, 0.249997F}, row);
  row.output = {0, 1, 2};
  expect(equal, {0.000023F, 0.000023F, 0.000023F, 0.499966F, 0.499966F}, row);
  row.output = {0, 1, 2, 0, 0};  // token 0 has e^-20
  expect_rounded(row, {0, 0.000023F, 0.000023F, 0.499977F, 0.499977F});
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

struct Queue {
  std::uint64_t chain;
  std::int32_t top_k;
  float top_p, min_p;
  std::int32_t first;  ///< smallest id that is left; all larger ids are left, too
};

// The row has 10000 tokens whose probabilities are in proportion to their ids.
TEST(LlamaCppAnswers, QueuesOfSamplers) {
  constexpr auto k = FilterStep::top_k, p = FilterStep::top_p, m = FilterStep::min_p;
  const auto queue_of = [](auto... steps) { return filter_chain_of({steps...}); };
  constexpr std::int32_t kTokens = 10000;
  constexpr float kNearOne = 9997.9F / 9999.0F;
  const Queue queues[] = {{queue_of(k), kTokens, 1, 1, 1},
                          {queue_of(k), 1, 1, 1, 9999},
                          {queue_of(p), kTokens, 1, 1, 1},
                          {queue_of(p), kTokens, 0, 1, 9999},
                          {queue_of(m), kTokens, 1, 1, 9999},
                          {queue_of(m), kTokens, 1, 1e-12F, 1},
                          {queue_of(k), 100, 1, 1, 9900},
                          {queue_of(p), kTokens, 0.0003F, 1, 9998},
                          {queue_of(p), kTokens, 0.8F, 1, 4472},
                          {queue_of(m), kTokens, 1, kNearOne, 9998},
                          {queue_of(m), kTokens, 1, 0.1F, 1000},
                          {queue_of(k, p), 100, 0.8F, 0.1F, 9920},
                          {queue_of(k, m), 100, 0.8F, 0.1F, 9900},
                          {queue_of(p, k), 100, 0.8F, 0.1F, 9900},
                          {queue_of(p, m), 100, 0.8F, 0.1F, 4472},
                          {queue_of(m, k), 100, 0.8F, 0.1F, 9900},
                          {queue_of(m, p), 100, 0.8F, kNearOne, 9998},
                          {queue_of(m, p), 100, 0.8F, 0.1F, 4560},
                          {queue_of(k, p, m), 100, 0.8F, 0.1F, 9920},
                          {queue_of(k, m, p), 100, 0.8F, 0.1F, 9920},
                          {queue_of(p, k, m), 100, 0.8F, 0.1F, 9900},
                          {queue_of(p, m, k), 100, 0.8F, 0.1F, 9900},
                          {queue_of(m, k, p), 100, 0.8F, 0.1F, 9920},
                          {queue_of(m, p, k), 100, 0.8F, 0.1F, 9900}};
  Probabilities ids(kTokens);
  std::iota(ids.begin(), ids.end(), 0.0F);
  for (const Queue& queue : queues) {
    RowProcessing row;
    row.filter_chain = queue.chain;
    row.chain_top_k = queue.top_k;
    row.chain_top_p = queue.top_p;
    row.chain_min_p = queue.min_p;
    const Probabilities left = left_of(ids, row, {});
    const auto first = std::ranges::find_if(left, [](float q) { return q > 0; });
    EXPECT_EQ(first - left.begin(), queue.first) << row.filter_chain;
    EXPECT_EQ(std::count(first, left.end(), 0.0F), 0) << row.filter_chain;
  }
}

}  // namespace
}  // namespace fairdraw::suites
