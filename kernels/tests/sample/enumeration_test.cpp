// Enumerate before sampling: every threshold of min_p that matters, every
// cumulative boundary of small vocabularies.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "common/min_p.h"
#include "cpu/row_sampler.h"
#include "reference/integer_model.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

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
  std::vector<std::uint64_t> words = {0, ~std::uint64_t{0}};
  reference::RowWeight sum = 0;
  for (std::size_t i = 0; i < row.weight.size(); ++i) {
    if (row.mask[i] == 0 || row.weight[i] == 0) continue;
    sum += row.weight[i];
    if (sum == row.total) break;
    const std::optional<std::uint64_t> word = row.first_word_at(sum);
    if (!word) break;
    words.push_back(*word);
    words.push_back(*word - 1);
    words.push_back(*word + 1);
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
