// Measures how many rows of the families float32 leaves open. A row is open if the real-number
// oracle calls one of its tokens ambiguous, for sums by a tree (10 additions at 1000 tokens) or for
// the sums of PyTorch (266 additions, the worst order on a GPU at 2^18 tokens). The profile's sort
// leaves no tie open. The numbers of open rows are printed and not tested, because they are a fact
// about float32 and not a promise. The test expects two properties: a narrower bound opens no
// further token, and rows of few tokens are open only at their cuts, under every profile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "harness/run/calls/logits_source.h"
#include "reference/float32_bound.h"
#include "reference/profiles.h"

namespace fairdraw::harness {
namespace {

constexpr std::int64_t kVocab = 1000;
constexpr std::int64_t kRowsOfAFamily = 150;

TEST(Float32Ambiguity, OfEachFamily) {
  // Everyday filters. The profile has no top_k = 0, so the vocabulary size turns the filter off.
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

// Returns whether float32 cannot decide a cut of the row: a partial sum at top_p, a weight at
// min_p, or equal weights on both sides of top_k. The margin is 2^-10; the widest band of a profile
// is that of sequential sums, which is 2000 roundings of 2^-24 for 1000 tokens, 1.2e-4.
bool is_cut_near(const std::vector<float>& row, const reference::RowParameters& parameters) {
  constexpr double kNear = 0x1p-10;
  std::vector<double> weights;
  for (const float logit : row) {
    if (logit > -INFINITY) weights.push_back(std::exp(static_cast<double>(logit)));
  }
  std::sort(weights.begin(), weights.end(), std::greater<>());
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i] / total;
    const bool at_top_p = std::abs(sum - static_cast<double>(parameters.top_p)) < kNear;
    const double of_largest = weights[i] / weights[0];
    const bool at_min_p = std::abs(of_largest / static_cast<double>(parameters.min_p) - 1) < kNear;
    const bool at_top_k = i + 1 == static_cast<std::size_t>(parameters.top_k) &&
                          i + 1 < weights.size() && weights[i + 1] > weights[i] * (1 - kNear);
    if ((parameters.top_p < 1 && at_top_p) || (parameters.min_p > 0 && at_min_p) || at_top_k) {
      return true;
    }
  }
  return false;
}

TEST(Float32Ambiguity, OfFewTokensIsAtTheCutsAloneUnderEveryProfile) {
  // Only one filter cuts a row, so that the filter order of a profile does not move the cut.
  const std::vector<reference::RowParameters> parameters = {{.top_k = kVocab, .top_p = 0.9F},
                                                            {.top_k = 50, .top_p = 0.95F},
                                                            {.top_k = kVocab, .top_p = 0.99F},
                                                            {.top_k = kVocab, .min_p = 0.05F},
                                                            {.top_k = kVocab, .min_p = 0.2F},
                                                            {.top_k = 2},
                                                            {.top_k = 5}};
  const auto source = family_source(Family::few_allowed, 11, kVocab, DType::float32);
  for (const std::string& name : reference::profile_names()) {
    const reference::Semantics semantics = *reference::find_profile(name);
    std::int64_t decided = 0;
    for (std::int64_t number = 0; number < 7 * kRowsOfAFamily; ++number) {
      std::vector<float> row(static_cast<std::size_t>(kVocab));
      source->fill(number, row);
      const reference::RowParameters& used =
          parameters[static_cast<std::size_t>(number) % parameters.size()];
      if (is_cut_near(row, used)) continue;
      const reference::RealDistribution distribution =
          reference::real_oracle(row, {}, used, semantics, reference::kFloat32Weights);
      if (!distribution.defined || distribution.must_fail) continue;
      ++decided;
      for (std::size_t id = 0; id < row.size(); ++id) {
        ASSERT_TRUE(row[id] == -INFINITY ||
                    distribution.membership[id] != reference::Membership::ambiguous)
            << name << " row " << number << " token " << id << " top_k " << used.top_k << " top_p "
            << used.top_p << " min_p " << used.min_p;
      }
    }
    EXPECT_GT(decided, 0) << name;
  }
}

}  // namespace
}  // namespace fairdraw::harness
