// These tests enumerate instead of sampling: every weight, every relevant threshold of min_p, and
// every cumulative boundary of small vocabularies.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "common/min_p.h"
#include "cpu/indexed_row.h"
#include "cpu/passes/tile_passes.h"
#include "reference/integer_model.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/tiles/indexed_row_cases.h"

namespace fairdraw::suites {
namespace {

/// Returns the number of weights that differ from the model's. The values lie -y octaves relative
/// to a maximum of 0; the bits of y run through [first, last] in steps of `stride`.
std::uint64_t count_wrong_weights(const cpu::TilePasses& passes, std::uint32_t first,
                                  std::uint32_t last, std::uint32_t stride) {
  constexpr auto kTile = static_cast<std::size_t>(kTileSize);
  const cpu::WeightRule octaves;  // the scale is 1, so that a logit is in octaves
  std::uint64_t wrong = 0;
  const std::uint64_t count = (std::uint64_t{last} - first) / stride + 1;
#pragma omp parallel for reduction(+ : wrong) schedule(static)
  for (std::uint64_t begin = 0; begin < count; begin += kTile) {
    float y[kTile];
    const std::size_t length = std::min<std::size_t>(kTile, count - begin);
    for (std::size_t i = 0; i < length; ++i) {
      const auto bits = static_cast<std::uint32_t>(first + (begin + i) * stride);
      y[i] = std::bit_cast<float>(bits | 0x80000000U);
    }
    std::uint64_t weights[kTile + cpu::kTileSlack];
    passes.weigh(y, length, octaves, 0.0F, -INFINITY, weights);
    for (std::size_t i = 0; i < length; ++i) {
      const std::uint64_t expected =
          std::isinf(y[i])
              ? 0
              : reference::weight_in_tile(reference::octaves_of_logit(y[i], 1.0F), 0.0);
      wrong += weights[i] != expected ? 1U : 0U;
    }
  }
  return wrong;
}

/// End of the tested values, as the bits of a float. Values 64 or more octaves below the maximum
/// weigh 0; the test covers a few octaves more, and -inf.
constexpr std::uint32_t kLastBits = 0x42840000U;  // 66.0

TEST(Enumeration, SimdWeightOfEveryFloatEqualsTheModels) {
  for (const CpuTarget target : available_targets()) {
    // The model's weights take most of the time. So the best target is compared at every float, and
    // the others at each 31st (an odd stride reaches every pattern of low bits).
    const std::uint32_t stride = is_reduced() ? 9973 : target == best_target() ? 1 : 31;
    const cpu::TilePasses& passes = cpu::tile_passes_for(target);
    EXPECT_EQ(count_wrong_weights(passes, 0, kLastBits, stride), 0U) << to_string(target);
    EXPECT_EQ(count_wrong_weights(passes, 0x7f800000U, 0x7f800000U, 1), 0U) << to_string(target);
    // All floats beyond must weigh 0; they are tested in steps.
    EXPECT_EQ(count_wrong_weights(passes, kLastBits, 0x7f7fffffU, 65537), 0U) << to_string(target);
  }
}

TEST(Enumeration, MinPThresholdIsTheNearestFloatToTheLogarithm) {
  // The test takes every 10007th of the 1.06e9 floats in (0, 1], and the floats next to powers of
  // two, where the logarithm is near an integer.
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

TEST(Enumeration, EveryCumulativeBoundaryOfSmallVocabulariesGivesTheModelsToken) {
  std::uint64_t words = 0;
  for (std::uint64_t number = 0; number < (is_reduced() ? 300U : 6000U); ++number) {
    const IndexedRowCase row = random_logits_case(5000000 + number, 1 + number % 40);
    const reference::IntegerRow expected = model_of(row);
    if (expected.status != RowStatus::ok) continue;
    const RowParameters parameters{row.parameters.temperature, row.parameters.top_k,
                                   row.parameters.top_p, row.parameters.min_p};
    for (const CpuTarget target : available_targets()) {
      cpu::IndexedRow sampler;
      sampler.use(target);
      ASSERT_EQ(sampler.filter(row.values.data(), row.values.size(), parameters, row.options),
                RowStatus::ok);
      for (const std::uint64_t word : directed_words(expected, number, row.values.size() + 1)) {
        ASSERT_EQ(sampler.draw(word), expected.token_for(word))
            << row.name << " on " << to_string(target) << " word " << word;
        ++words;
      }
    }
  }
  // The test compares 4000 rows with about 10 boundaries each, and 3 words per boundary.
  EXPECT_GT(words, is_reduced() ? 1000U : 100000U);
}

}  // namespace
}  // namespace fairdraw::suites
