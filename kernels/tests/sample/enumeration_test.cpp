// Enumerate before sampling: every weight, every threshold of min_p that matters, every
// cumulative boundary of small vocabularies.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "common/exp2fix.h"
#include "common/min_p.h"
#include "cpu/passes.h"
#include "cpu/row_sampler.h"
#include "reference/integer_model.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

/// Compares the weights of -bits, for all bits in [first, last] by `stride`, with the model's.
std::uint64_t count_wrong_weights(const cpu::Passes& passes, std::uint32_t first,
                                  std::uint32_t last, std::uint32_t stride) {
  constexpr std::size_t kBatch = 4096;
  const cpu::WeightRule rule;  // shift 0, scale 1: y is the value
  std::uint64_t wrong = 0;
  const std::uint64_t count = (std::uint64_t{last} - first) / stride + 1;
#pragma omp parallel for reduction(+ : wrong) schedule(static)
  for (std::uint64_t begin = 0; begin < count; begin += kBatch) {
    std::vector<float> y;
    for (std::uint64_t i = begin; i < std::min(count, begin + kBatch); ++i) {
      const auto bits = static_cast<std::uint32_t>(first + i * stride);
      y.push_back(std::bit_cast<float>(bits | 0x80000000U));
    }
    std::vector<std::uint64_t> weights(y.size());
    passes.weigh(y.data(), y.size(), rule, -INFINITY, weights.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      wrong += weights[i] != reference::exp2fix(y[i]) ? 1U : 0U;
    }
  }
  return wrong;
}

/// Weights are 0 below 2^-40; a bit more of the domain is tested, and -inf.
constexpr std::uint32_t kLastBits = 0x42800000U;  // 64.0

TEST(Enumeration, SimdWeightOfEveryFloatEqualsTheModels) {
  for (const CpuTarget target : available_targets()) {
    // The model's own weight is the cost, some 20 ns: the best target is compared on every float,
    // the others on each 31st (an odd stride meets every pattern of low bits).
    const std::uint32_t stride = is_reduced() ? 9973 : target == best_target() ? 1 : 31;
    const cpu::Passes& passes = cpu::passes_for(target);
    EXPECT_EQ(count_wrong_weights(passes, 0, kLastBits, stride), 0U) << to_string(target);
    EXPECT_EQ(count_wrong_weights(passes, 0x7f800000U, 0x7f800000U, 1), 0U) << to_string(target);
    // The rest of the floats in steps: all weigh 0.
    EXPECT_EQ(count_wrong_weights(passes, kLastBits, 0x7f7fffffU, 65537), 0U) << to_string(target);
  }
}

TEST(Enumeration, MinPThresholdIsTheNearestFloatToTheLogarithm) {
  // 1.06e9 floats in (0, 1]: every 10007th, and the ones next to the powers of two, where the
  // logarithm is near an integer.
  const std::uint32_t stride = is_reduced() ? 1000003 : 10007;
  for (std::uint32_t bits = 1; bits <= 0x3f800000U; bits += stride) {
    const float min_p = std::bit_cast<float>(bits);
    ASSERT_EQ(min_p_octaves(min_p), reference::min_p_threshold(min_p)) << std::hexfloat << min_p;
  }
  for (std::uint32_t exponent = 0; exponent <= 127; ++exponent) {
    for (std::int32_t step = -64; step <= 64; ++step) {
      const std::int64_t bits = (std::int64_t{exponent} << 23) + step;
      if (bits < 1 || bits > 0x3f800000) continue;
      const float min_p = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      ASSERT_EQ(min_p_octaves(min_p), reference::min_p_threshold(min_p)) << std::hexfloat << min_p;
    }
  }
}

/// Random words whose position t is a cumulative boundary of the row, one below it, and 0 and the
/// largest: every token's first and last position.
std::vector<std::uint64_t> boundary_words(const reference::IntegerRow& row) {
  __extension__ typedef unsigned __int128 uint128;
  std::vector<std::uint64_t> words = {0, ~std::uint64_t{0}};
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < row.weight.size(); ++i) {
    if (row.mask[i] == 0 || row.weight[i] == 0) continue;
    sum += row.weight[i];
    if (sum == row.total) break;
    // The smallest word w with floor(w * total / 2^64) >= sum, and the one below it.
    const uint128 scaled = static_cast<uint128>(sum) << 64;
    const auto word = static_cast<std::uint64_t>((scaled + row.total - 1) / row.total);
    words.push_back(word);
    words.push_back(word - 1);
    words.push_back(word + 1);
  }
  return words;
}

TEST(Enumeration, EveryCumulativeBoundaryOfSmallVocabulariesGivesTheModelsToken) {
  std::uint64_t boundaries = 0;
  for (std::uint64_t number = 0; number < (is_reduced() ? 300U : 6000U); ++number) {
    const RandomRow row = random_row_of(5000000 + number, 1 + number % 40);
    if (!row.allowed.empty()) continue;
    const reference::IntegerRow expected =
        reference::integer_model(row.logits, {}, row.parameters, row.tie_rule, row.filter_order);
    if (expected.status != RowStatus::ok) continue;
    const std::vector<std::uint64_t> words = boundary_words(expected);
    for (const CpuTarget target : available_targets()) {
      cpu::RowSampler sampler;
      sampler.use(cpu::passes_for(target));
      cpu::FilterOptions options;
      options.tie_rule = row.tie_rule;
      options.filter_order = row.filter_order;
      const RowParameters parameters{row.parameters.temperature, row.parameters.top_k,
                                     row.parameters.top_p, row.parameters.min_p};
      ASSERT_EQ(sampler.filter(row.logits.data(), row.logits.size(), parameters, options),
                RowStatus::ok);
      for (const std::uint64_t word : words) {
        ASSERT_EQ(sampler.draw(word), expected.token_for(word))
            << describe(row) << " on " << to_string(target) << " word " << word;
        ++boundaries;
      }
    }
  }
  // 4000 rows of some 10 boundaries of 3 words.
  EXPECT_GT(boundaries, is_reduced() ? 1000U : 100000U);
}

}  // namespace
}  // namespace fairdraw::suites
