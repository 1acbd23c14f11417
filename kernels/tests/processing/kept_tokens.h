// Rows of logits, and the tokens that the filters of processing keep of them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <vector>

#include "fairdraw/sample.h"
#include "tests/processing/processed_row.h"

namespace fairdraw::suites {

using Ids = std::vector<int>;

/// Float nearest to ln 2. A logit of ln 2 weighs exactly twice as much as a logit of 0.
inline constexpr float kLn2 = 0x1.62e43p-1F;

/// Returns the ids that stay.
inline Ids kept(const std::vector<float>& logits, const RowProcessing& row) {
  const Processed processed = process(logits, row);
  EXPECT_EQ(processed.status, RowStatus::ok) << to_string(processed.status);
  Ids ids;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (processed.logits[id] == kBanned) continue;
    EXPECT_EQ(processed.logits[id], logits[id]);
    ids.push_back(static_cast<int>(id));
  }
  return ids;
}

/// Returns logits whose softmax has these probabilities, up to rounding.
inline std::vector<float> logits_of(std::initializer_list<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

/// Returns a row of up to 200 logits, many with ties, and some at -inf.
inline std::vector<float> random_logits(std::mt19937_64& random) {
  constexpr std::array<float, 6> kSpreads = {0, 0.1F, 1, 3, 10, 40};
  const float spread = kSpreads[random() % kSpreads.size()];
  const float center = static_cast<float>(random() % 60) - 30;
  const bool is_coarse = random() % 3 == 0;  // coarse logits have ties
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> logits(1 + random() % 200);
  for (float& x : logits) {
    x = center + spread * normal(random);
    if (is_coarse) x = std::round(x * 4) / 4;
    if (random() % 50 == 0) x = kBanned;
  }
  logits[random() % logits.size()] = center;
  return logits;
}

/// The token that is drawn from a row, and the number of tokens that its filters keep.
struct OneDraw {
  std::int32_t token = -7;
  std::int32_t support = -7;
};

/// Draws from a row with processing, with the other parameters of `request`.
inline OneDraw draw_from(const std::vector<float>& logits, const RowProcessing& row,
                         SampleRequest request) {
  const auto vocab = static_cast<std::int64_t>(logits.size());
  const harness::ProcessingArrays arrays = harness::pack(std::span(&row, 1), vocab);
  request.logits = {logits.data(), DType::float32, 1, vocab, vocab};
  request.processing = arrays.view();
  request.seed = std::uint64_t{7};
  OneDraw drawn;
  SampleResult result;
  result.tokens = {&drawn.token, 1};
  result.support_size = {&drawn.support, 1};
  const Error error = sample(request, result);
  EXPECT_FALSE(error) << error.message;
  return drawn;
}

}  // namespace fairdraw::suites
