// The distribution of marked tokens over keys: the bound of fairdraw/watermark.h, its proof on
// words that can be enumerated, and counts over random keys.
//
// Counts cannot see a distance below the discrepancies that the tests compute; those below are
// shown by the first two tests alone.
#include <gtest/gtest.h>

#include <array>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <vector>

#include "fairdraw/watermark.h"
#include "harness/inputs/dice.h"
#include "harness/statistics/g_test.h"
#include "harness/statistics/goodness_of_fit.h"
#include "reference/integer_model.h"
#include "serving/rules/watermark_rules.h"
#include "tests/sample/reduced.h"
#include "tests/serving/marked_rows.h"

namespace fairdraw::suites {
namespace {

using reference::RowMark;
using Real = boost::multiprecision::cpp_bin_float_100;

/// False alarms of this file's counts together: 1e-9, over at most ten tables.
constexpr double kFalseFailRate = 1e-10;
constexpr double kFalsePassRate = 1e-6;

/// d of the bound's first term, in units of 2^-64.
constexpr double kErrorOfTimes = 1.2;

bool is_later(std::uint64_t word, const Real& threshold) {
  const ArrivalTime time = arrival_time(word);
  return Real(time.whole) + Real(time.fraction) * boost::multiprecision::ldexp(Real(1), -64) >
         threshold;
}

/// Times fall as words grow, so the words with a time above x are those below some word. Their
/// share is P(time > x), and 2^-x is the share of exact times.
TEST(WatermarkDistribution, TimesHaveTheStatedDistributionFunction) {
  harness::Dice dice(41);
  for (std::uint64_t i = 0; i < budget(20000); ++i) {
    // Thresholds at every scale: near 0, where times are steps of a word, and up to 65.
    const Real threshold = Real(dice.unit() * 65) *
                           boost::multiprecision::ldexp(Real(1), -static_cast<int>(dice.below(66)));
    std::uint64_t low = 0, high = ~std::uint64_t{0};
    if (!is_later(low, threshold)) {
      high = 0;
    } else {
      while (high - low > 1) {
        const std::uint64_t middle = low + (high - low) / 2;
        (is_later(middle, threshold) ? low : high) = middle;
      }
    }
    const Real exact = boost::multiprecision::exp2(Real(64) - threshold);
    ASSERT_LE(boost::multiprecision::abs(Real(high) - exact), Real(kErrorOfTimes)) << threshold;
  }
}

/// Races of words that are equally spaced: word k of n stands for the share [k, k + 1) / n, as all
/// 2^64 words do. The same proof gives a distance of at most the number of tokens times d, d half a
/// word, 1 / 2n, and kErrorOfTimes 2^-64.
template <std::size_t kTokens>
void expect_proportional(const std::array<std::uint64_t, kTokens>& weights, int bits) {
  const std::size_t words = std::size_t{1} << bits;
  std::vector<ArrivalTime> times;
  for (std::uint64_t k = 0; k < words; ++k) {
    times.push_back(arrival_time((k << (64 - bits)) | (std::uint64_t{1} << (63 - bits))));
  }
  std::array<std::uint64_t, kTokens> wins{};
  std::array<std::size_t, kTokens> drawn{};
  const std::size_t races = std::size_t{1} << (static_cast<std::size_t>(bits) * kTokens);
  for (std::size_t race = 0; race < races; ++race) {
    for (std::size_t token = 0; token < kTokens; ++token) {
      drawn[token] = (race >> (static_cast<std::size_t>(bits) * token)) & (words - 1);
    }
    std::size_t first = 0;
    for (std::size_t token = 1; token < kTokens; ++token) {
      if (arrives_before(times[drawn[token]], weights[token], times[drawn[first]],
                         weights[first])) {
        first = token;
      }
    }
    ++wins[first];
  }
  double total = 0, distance = 0;
  for (const std::uint64_t weight : weights) total += static_cast<double>(weight);
  for (std::size_t token = 0; token < kTokens; ++token) {
    distance += std::fabs(static_cast<double>(wins[token]) / static_cast<double>(races) -
                          static_cast<double>(weights[token]) / total) /
                2;
  }
  const double d = 0.5 / static_cast<double>(words) + kErrorOfTimes * 0x1p-64;
  EXPECT_LE(distance, static_cast<double>(kTokens) * d);
}

TEST(WatermarkDistribution, EnumeratedRacesAreProportionalToWeights) {
  expect_proportional<2>({1, 1}, 11);
  expect_proportional<2>({1, 3}, 11);
  expect_proportional<2>({1000000007, 1}, 11);
  expect_proportional<3>({1, 1, 1}, 7);
  expect_proportional<3>({5, 2, 1}, 7);
  expect_proportional<3>({3, 1, 1000}, 7);
  expect_proportional<4>({8, 4, 2, 1}, 5);
}

/// The tokens that many keys choose in one row.
std::vector<std::uint64_t> counts_over_keys(const std::vector<float>& row,
                                            const SampleRequest& filters, std::uint64_t first_key,
                                            std::size_t keys, const Ids& output,
                                            WatermarkScheme scheme = WatermarkScheme::race) {
  std::vector<std::uint64_t> counts(row.size(), 0);
  constexpr std::size_t kBatch = 4096;
  for (std::size_t done = 0; done < keys; done += kBatch) {
    std::vector<float> logits;
    std::vector<RowMark> marks;
    for (const std::uint64_t key : keys_from(first_key + done, kBatch)) {
      logits.insert(logits.end(), row.begin(), row.end());
      marks.push_back({.key = key, .window = 2, .scheme = scheme});
    }
    std::vector<Ids> outputs(kBatch, output);
    // In a race the key alone chooses; a tournament also takes the request's random word.
    const std::vector<std::uint64_t> seeds = scheme == WatermarkScheme::race
                                                 ? std::vector<std::uint64_t>(kBatch, 5)
                                                 : keys_from(~first_key - done, kBatch);
    append_marked(logits, marks, seeds, outputs, filters);
    for (const Ids& ids : outputs) ++counts[static_cast<std::size_t>(ids.back())];
  }
  return counts;
}

/// Compares counts with the model's weights of the survivors.
void expect_fit(const std::vector<std::uint64_t>& counts, const reference::IntegerRow& row) {
  std::vector<std::uint64_t> cells;
  std::vector<double> probabilities;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (row.mask[id] == 0) {
      EXPECT_EQ(counts[id], 0U) << id;
      continue;
    }
    cells.push_back(counts[id]);
    probabilities.push_back(reference::to_nearest_double(row.weight[id]) /
                            reference::to_nearest_double(row.total));
  }
  EXPECT_GE(statistics::goodness_of_fit(cells, probabilities).g_p_bound, kFalseFailRate);
}

TEST(WatermarkDistribution, TokensOverKeysAreTheUnmarkedOnes) {
  const std::size_t keys = is_reduced() ? 8192 : 409600;
  std::vector<float> row;
  harness::Dice dice(45);
  for (int i = 0; i < 12; ++i) row.push_back(static_cast<float>(dice.bell() * 1.5));
  // What the tables can see, at most 12 cells.
  const double seen = statistics::g_min_discrepancy(keys, 12, kFalseFailRate, kFalsePassRate);
  EXPECT_LE(seen, is_reduced() ? 0.12 : 0.02);
  for (int kind = 0; kind < 4; ++kind) {
    SampleRequest filters;
    reference::RowParameters parameters;
    if (kind == 1) filters.top_k = parameters.top_k = 5;
    if (kind == 2) filters.top_p = parameters.top_p = 0.8F;
    if (kind == 3) {
      filters.min_p = parameters.min_p = 0.05F;
      filters.temperature = parameters.temperature = 1.7F;
    }
    const reference::IntegerRow expected = reference::integer_model(row, {}, parameters);
    expect_fit(counts_over_keys(row, filters, 1000000U * static_cast<std::uint64_t>(kind), keys,
                                kind % 2 == 0 ? Ids{} : Ids{3, 1, 4}),
               expected);
  }
}

TEST(WatermarkDistribution, TournamentsOverKeysAndWordsGiveTheUnmarkedTokens) {
  const std::size_t keys = is_reduced() ? 8192 : 204800;
  std::vector<float> row;
  harness::Dice dice(48);
  for (int i = 0; i < 12; ++i) row.push_back(static_cast<float>(dice.bell() * 1.5));
  for (int kind = 0; kind < 2; ++kind) {
    SampleRequest filters;
    reference::RowParameters parameters;
    if (kind == 1) filters.top_k = parameters.top_k = 5;
    expect_fit(counts_over_keys(row, filters, 7000000U * static_cast<std::uint64_t>(kind + 1), keys,
                                {}, WatermarkScheme::tournament),
               reference::integer_model(row, {}, parameters));
  }
}

/// The mean over all values of all tokens in both layers is the unmarked distribution: 3 tokens
/// have 2^6 different values.
TEST(WatermarkDistribution, TheMeanOverAllTournamentsIsTheUnmarkedDistribution) {
  constexpr int kLayers = 2;
  const reference::IntegerRow row =
      reference::integer_model(std::vector<float>{0.0F, 1.0F, -0.5F}, {}, {});
  std::array<Real, 3> mean{};
  for (std::uint64_t values = 0; values < 64; ++values) {
    const auto weights = reference::tournament_model(
        row, kLayers, [values](std::int32_t token) { return values >> (2 * token) << 62; });
    const Real all(weights[0] + weights[1] + weights[2]);
    for (std::size_t id = 0; id < 3; ++id) mean[id] += Real(weights[id]) / all / 64;
  }
  const double all = reference::to_nearest_double(row.total);
  for (std::size_t id = 0; id < 3; ++id) {
    // The bound of fairdraw/watermark.h for n = 3, and three roundings of the expected share.
    const double share = reference::to_nearest_double(row.weight[id]) / all;
    const double bound = 5 * kLayers * 0x1p-53 + (kLayers + 1) * 3 * 0x1p-60;
    EXPECT_NEAR(static_cast<double>(mean[id] - Real(share)), 0, bound + 3 * 0x1p-53);
  }
}

/// Tournaments whose first sums are around 2^62, of one token or of tokens with no weight beside
/// it.
TEST(WatermarkDistribution, WeightsOfATournamentStayInTheirRange) {
  constexpr std::uint64_t kMost = (std::uint64_t{1} << 62) - 1;
  EXPECT_EQ(tournament_shift(kMost), 0);
  EXPECT_EQ(tournament_shift(static_cast<uint128_t>(kMost) + 1), 1);
  EXPECT_EQ(tournament_shift(static_cast<uint128_t>(1) << 123), 62);
  for (const std::uint64_t total : {std::uint64_t{1}, std::uint64_t{3}, kMost}) {
    for (const std::uint64_t ones : {std::uint64_t{0}, std::uint64_t{1}, total / 2, total}) {
      const std::uint64_t share = share_of_zeros(total, ones);
      // 2^64 (total - ones) / total is met within 5 2^-53 of 2^64, as fairdraw/watermark.h says.
      const Real exact =
          Real(total - ones) / Real(total) * boost::multiprecision::ldexp(Real(1), 64);
      EXPECT_LT(boost::multiprecision::abs(Real(share) - exact), Real(5 * 0x1p11)) << total;
      EXPECT_EQ(weight_after_layer(ones, true, share) - multiply_high(ones, share), ones);
      EXPECT_LE(multiply_high(total - ones, share), total - ones);
    }
  }
}

// --- Sequences -----------------------------------------------------------------------------------

constexpr std::size_t kIds = 3, kLength = 4, kSequences = 81;

/// Logits of a small model after a token, or at the beginning.
std::vector<float> logits_after(const Ids& output) {
  const std::int32_t last = output.empty() ? 0 : output.back();
  return last == 0   ? std::vector<float>{1.0F, 0.0F, -0.5F}
         : last == 1 ? std::vector<float>{0.0F, 0.5F, 1.0F}
                     : std::vector<float>{-1.0F, 0.25F, 0.5F};
}

/// Counts sequences of marked tokens over keys. Contexts of one id repeat within a sequence.
std::vector<std::uint64_t> sequences(std::size_t requests, bool mask_repeated,
                                     std::uint64_t second_key) {
  std::vector<RowMark> marks;
  for (const std::uint64_t key : keys_from(77, requests)) {
    marks.push_back({.key = key,
                     .second_key = second_key == 0 ? 0 : key * second_key,
                     .second_share = 0.25F,
                     .window = 1,
                     .mask_repeated = mask_repeated});
  }
  const std::vector<std::uint64_t> seeds = keys_from(1, requests);
  std::vector<Ids> outputs(requests);
  for (std::size_t step = 0; step < kLength; ++step) {
    std::vector<float> logits;
    for (const Ids& output : outputs) {
      const std::vector<float> row = logits_after(output);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    append_marked(logits, marks, seeds, outputs);
  }
  std::vector<std::uint64_t> counts(kSequences, 0);
  for (const Ids& output : outputs) {
    std::size_t cell = 0;
    for (const std::int32_t id : output) cell = cell * kIds + static_cast<std::size_t>(id);
    ++counts[cell];
  }
  return counts;
}

std::vector<double> sequence_probabilities() {
  std::vector<double> probabilities;
  for (std::size_t cell = 0; cell < kSequences; ++cell) {
    Ids output;
    double probability = 1;
    for (std::size_t place = kSequences / kIds; place > 0; place /= kIds) {
      const reference::IntegerRow row =
          reference::integer_model(logits_after(output), {}, reference::RowParameters{});
      const std::size_t id = cell / place % kIds;
      probability *=
          reference::to_nearest_double(row.weight[id]) / reference::to_nearest_double(row.total);
      output.push_back(static_cast<std::int32_t>(id));
    }
    probabilities.push_back(probability);
  }
  return probabilities;
}

/// With repeated contexts masked, sequences have the unmarked distribution over keys; without, they
/// have not, which shows that these counts would find it.
TEST(WatermarkDistribution, SequencesOverKeysAreTheUnmarkedOnesIfRepeatedContextsAreMasked) {
  const std::size_t requests = is_reduced() ? 20000 : 300000;
  const std::vector<double> expected = sequence_probabilities();
  const auto p_bound = [&](bool mask_repeated, std::uint64_t second_key) {
    return statistics::goodness_of_fit(sequences(requests, mask_repeated, second_key), expected)
        .g_p_bound;
  };
  EXPECT_GE(p_bound(true, 0), kFalseFailRate);
  EXPECT_GE(p_bound(true, 0xabcdef123457U), kFalseFailRate);
  EXPECT_LT(p_bound(false, 0), kFalseFailRate);
}

/// The second key's share of draws.
TEST(WatermarkDistribution, TheSecondKeyIsTakenAtItsShare) {
  harness::Dice dice(46);
  const std::uint64_t draws = budget(1000000);
  for (const float share : {0.1F, 0.5F}) {
    std::array<std::uint64_t, 2> taken{};
    for (std::uint64_t i = 0; i < draws; ++i) ++taken[takes_second_key(share, dice.bits()) ? 1 : 0];
    const auto p = static_cast<double>(share);
    const std::array<double, 2> probabilities = {1 - p, p};
    EXPECT_GE(statistics::goodness_of_fit(taken, probabilities).g_p_bound, kFalseFailRate);
  }
  for (const std::uint64_t word : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    EXPECT_FALSE(takes_second_key(0.0F, word));
    EXPECT_TRUE(takes_second_key(1.0F, word));
  }
}

}  // namespace
}  // namespace fairdraw::suites
