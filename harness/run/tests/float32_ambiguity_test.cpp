// How much of the families float32 leaves open: rows with a token that the real-number oracle calls
// ambiguous, for sums by a tree (10 additions at 1000 tokens) and for those of PyTorch (266
// additions, the worst order on a GPU at 2^18 tokens), under a profile whose sort leaves no tie
// open. Printed, because the numbers are a fact
// about float32 and not a promise; what must hold is that a narrower bound opens no further token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "harness/run/calls/logits_source.h"
#include "reference/float32_bound.h"

namespace fairdraw::harness {
namespace {

constexpr std::int64_t kVocab = 1000;
constexpr std::int64_t kRowsOfAFamily = 150;

TEST(Float32Ambiguity, OfEachFamily) {
  // Everyday filters; the profile has no top_k 0, and "off" is the vocabulary.
  const std::vector<reference::RowParameters> parameters = {
      {.temperature = 0.7F, .top_k = 50, .top_p = 0.9F},
      {.top_k = kVocab},
      {.temperature = 1.2F, .top_k = kVocab, .top_p = 0.95F},
      {.temperature = 1.5F, .top_k = kVocab, .min_p = 0.05F},
      {.top_k = 40}};
  reference::Semantics wide = *reference::find_profile("hf");
  wide.top_p_ties = reference::TopPTies::keep_all;
  const reference::Semantics narrow =
      in_float32(wide, {.exp_ulps = 2, .additions = reference::tree_additions(kVocab)});
  for (const Family family : all_families()) {
    const auto source = family_source(family, 11, kVocab, DType::float32);
    std::int64_t rows = 0, open_narrow = 0, open_wide = 0;
    for (std::int64_t number = 0; number < kRowsOfAFamily; ++number) {
      std::vector<float> row(static_cast<std::size_t>(kVocab));
      source->fill(number, row);
      const reference::RowParameters& used =
          parameters[static_cast<std::size_t>(number) % parameters.size()];
      const auto distribution = [&](const reference::Semantics& semantics) {
        return reference::real_oracle(row, {}, used, semantics, reference::kFloat32Weights);
      };
      const reference::RealDistribution of_narrow = distribution(narrow),
                                        of_wide = distribution(wide);
      ASSERT_EQ(of_narrow.defined, of_wide.defined);
      if (!of_narrow.defined) continue;
      ++rows;
      const auto open = [](const reference::RealDistribution& one) {
        return std::count(one.membership.begin(), one.membership.end(),
                          reference::Membership::ambiguous) > 0;
      };
      open_narrow += open(of_narrow) ? 1 : 0;
      open_wide += open(of_wide) ? 1 : 0;
      for (std::size_t id = 0; id < row.size(); ++id) {
        const auto membership = of_wide.membership[id];
        if (membership == reference::Membership::ambiguous) continue;
        ASSERT_EQ(of_narrow.membership[id], membership)
            << to_string(family) << " row " << number << " token " << id;
      }
    }
    if (rows == 0) continue;
    std::printf("%15s: %3ld rows, with ambiguous tokens %.3f (tree), %.3f (PyTorch)\n",
                to_string(family), static_cast<long>(rows),
                static_cast<double>(open_narrow) / static_cast<double>(rows),
                static_cast<double>(open_wide) / static_cast<double>(rows));
  }
}

}  // namespace
}  // namespace fairdraw::harness
