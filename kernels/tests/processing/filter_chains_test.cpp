// Filter chains, and the temperature that follows the entropy, are tested by hand, on rows whose
// probabilities and entropies the comments have, and on random rows against real numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "fairdraw/log_probabilities.h"
#include "fairdraw/sample.h"
#include "reference/probability_filters.h"
#include "tests/processing/kept_tokens.h"

namespace fairdraw::suites {
namespace {

RowProcessing chain(std::initializer_list<FilterStep> steps) {
  RowProcessing row;
  row.filter_chain = filter_chain_of(steps);
  return row;
}

TEST(FilterChains, StepsThatAreNotNamedHaveNoEffect) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  RowProcessing row = chain({FilterStep::top_k});
  row.typical_p = 0.24F;
  row.top_n_sigma = 0x1p-20F;
  row.chain_top_k = 2;
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
  row.filter_chain = 0;
  row.top_n_sigma = 0;
  EXPECT_EQ(kept(logits, row), Ids({1})) << "without a chain, its top_k has no effect";
}

// Of the first two tokens alone, the second has 1/3.
TEST(FilterChains, StepsFollowOneAnotherAsTheyStand) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  RowProcessing row = chain({FilterStep::top_k, FilterStep::epsilon_cutoff});
  row.chain_top_k = 2;
  row.epsilon_cutoff = 0.3F;
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
  row.filter_chain = filter_chain_of({FilterStep::epsilon_cutoff, FilterStep::top_k});
  EXPECT_EQ(kept(logits, row), Ids({0}));
  row = chain({FilterStep::xtc, FilterStep::top_k});
  row.xtc_probability = 1;
  row.xtc_threshold = 0.2F;
  row.chain_top_k = 1;
  EXPECT_EQ(kept(logits, row), Ids({1}));
  row.filter_chain = filter_chain_of({FilterStep::top_k, FilterStep::xtc});
  EXPECT_EQ(kept(logits, row), Ids({0}));
  row = chain({FilterStep::top_n_sigma, FilterStep::epsilon_cutoff});
  row.top_n_sigma = 1.3F;  // leaves the first two, as in the test of filters one after the other
  row.epsilon_cutoff = 0.3F;
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
  row.filter_chain = filter_chain_of({FilterStep::epsilon_cutoff, FilterStep::top_n_sigma});
  EXPECT_EQ(kept(logits, row), Ids({0}));
}

TEST(FilterChains, AStepMayStandTwice) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  RowProcessing row = chain({FilterStep::top_p, FilterStep::top_p});
  row.chain_top_p = 0.7F;  // 1/2, and then 2/3, are less
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
  row.chain_top_p = 0.6F;
  EXPECT_EQ(kept(logits, row), Ids({0}));
  row.filter_chain = filter_chain_of({FilterStep::top_p});
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
}

// At the temperature 1/2, the weights are 16, 4, 1 and 1; at 2, they are 2, 1.414, 1 and 1, so that
// the mass of the first two is 0.631.
TEST(FilterChains, TheTemperatureHoldsForTheStepsAfterIt) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  RowProcessing row = chain({FilterStep::min_p, FilterStep::temperature});
  row.chain_min_p = 0.3F;
  row.chain_temperature = 0.5F;
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
  row.filter_chain = filter_chain_of({FilterStep::temperature, FilterStep::min_p});
  EXPECT_EQ(kept(logits, row), Ids({0}));
  row = chain({FilterStep::temperature, FilterStep::top_p});
  row.chain_top_p = 0.65F;
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
  row.chain_temperature = 0.5F;
  EXPECT_EQ(kept(logits, row), Ids({0}));
  row.chain_temperature = 2;
  EXPECT_EQ(kept(logits, row), Ids({0, 1, 2, 3}));
  row.filter_chain = filter_chain_of({FilterStep::top_p, FilterStep::temperature});
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
}

TEST(FilterChains, TopKKeepsTies) {
  const std::vector<float> logits = logits_of({0.125, 0.5, 0.25, 0.125});
  RowProcessing row = chain({FilterStep::top_k});
  for (const auto& [k, expected] : std::vector<std::pair<std::int32_t, Ids>>{{1, {1}},
                                                                             {2, {1, 2}},
                                                                             {3, {0, 1, 2, 3}},
                                                                             {4, {0, 1, 2, 3}},
                                                                             {1000, {0, 1, 2, 3}},
                                                                             {0, {0, 1, 2, 3}},
                                                                             {-1, {0, 1, 2, 3}}}) {
    row.chain_top_k = k;
    EXPECT_EQ(kept(logits, row), expected) << k;
  }
  row.chain_top_k = 1;
  EXPECT_EQ(kept({-0.0F, 0, -0x1p-149F}, row), Ids({0, 1}));
  row.chain_top_k = 2;
  EXPECT_EQ(kept({1e30F, -1e30F, -1.0000001e30F}, row), Ids({0, 1})) << "neither has a weight";
}

TEST(FilterChains, TopPOfZeroKeepsTheLargest) {
  RowProcessing row = chain({FilterStep::top_p});
  row.chain_top_p = 0;
  EXPECT_EQ(kept({1, 2, 2, 0}, row), Ids({1, 2}));
}

TEST(FilterChains, TheRequestsOwnParametersComeAfterTheChain) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  RowProcessing row = chain({FilterStep::xtc});
  row.xtc_probability = 1;
  row.xtc_threshold = 0.2F;  // leaves 1/4, 1/8 and 1/8, of which the first is 1/2 now
  SampleRequest request;
  EXPECT_EQ(draw_from(logits, row, request).support, 3);
  request.top_p = 0.45F;
  const OneDraw drawn = draw_from(logits, row, request);
  EXPECT_EQ(drawn.support, 1);
  EXPECT_EQ(drawn.token, 1);
}

TEST(FilterChains, PartsBeyondTheirRangesFail) {
  for (const std::uint64_t bad : {0x20ULL, 0xdULL, 0x1cULL, 0xccULL, 0x10ULL, ~0ULL}) {
    RowProcessing row;
    row.filter_chain = bad;
    EXPECT_EQ(process({0, 1}, row).status, RowStatus::invalid_probability_filter) << bad;
  }
  std::vector<RowProcessing> rows(9);
  rows[0].chain_temperature = 0;
  rows[1].chain_temperature = std::nanf("");
  rows[2].chain_temperature = 0x1.000002p64F;
  rows[3].chain_temperature = -1;
  rows[4].chain_top_k = -2;
  rows[5].chain_top_p = 1.5F;
  rows[6].chain_top_p = std::nanf("");
  rows[7].chain_min_p = -0x1p-149F;
  rows[8].chain_min_p = kInfinity;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(process({0, 1}, rows[i]).status, RowStatus::invalid_probability_filter) << i;
  }
}

TEST(FilterChains, AChainHasUpToSixteenSteps) {
  constexpr auto k = FilterStep::min_p;
  EXPECT_EQ(filter_chain_of({k, k, k, k, k, k, k, k, k, k, k, k, k, k, k, FilterStep::top_k, k}),
            0x9bbb'bbbb'bbbb'bbbbULL);
  RowProcessing row;
  row.filter_chain = 0x9bbb'bbbb'bbbb'bbbbULL;
  row.chain_top_k = 1;
  EXPECT_EQ(kept({0, 1}, row), Ids({1})) << "the last step counts";
}

// --- The temperature that follows the entropy
// ------------------------------------------------------

/// Returns the temperature of a row, from the ratio of its two largest probabilities: the logits
/// differ by ln 2, and the log-probabilities by ln 2 / T.
float temperature_of(const std::vector<float>& logits, const RowProcessing& row,
                     float temperature) {
  const auto vocab = static_cast<std::int64_t>(logits.size());
  const harness::ProcessingArrays arrays = harness::pack(std::span(&row, 1), vocab);
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, 1, vocab, vocab};
  request.processing = arrays.view();
  request.temperature = temperature;
  const std::array<std::int32_t, 2> ids = {0, 1};
  std::array<float, 2> logprobs{};
  LogprobsResult report;
  report.mode = LogprobsMode::processed_logits;
  report.values = {logprobs.data(), 2};
  RowStatus status = RowStatus::inactive;
  request.num_samples = 2;
  const Error error = log_probabilities(request, {ids.data(), 2}, report, {&status, 1});
  EXPECT_FALSE(error) << error.message;
  EXPECT_EQ(status, RowStatus::ok) << to_string(status);
  return (logits[0] - logits[1]) / (logprobs[0] - logprobs[1]);
}

// Of 1/2, 1/4, 1/8 and 1/8 the entropy is 7/4 bits, 7/8 of that of four equal tokens. The logits
// are multiples of ln 2 in float32. A quotient of two floats has an error of 2^-24 of it, that of
// the differences 3 times as much; the temperature is rounded, too, and its entropy has an error of
// 2^-21.
TEST(DynamicTemperature, FollowsTheEntropy) {
  const std::vector<float> logits = {2 * kLn2, kLn2, 0, 0};
  RowProcessing row;
  row.dynatemp_range = 0.5F;
  constexpr float kError = 0x1p-20F;
  EXPECT_NEAR(temperature_of(logits, row, 1), 0.5 + 7.0 / 8, 2 * kError);
  row.dynatemp_exponent = 2;
  EXPECT_NEAR(temperature_of(logits, row, 1), 0.5 + 49.0 / 64, 2 * kError);
  row.dynatemp_exponent = 0;
  EXPECT_NEAR(temperature_of(logits, row, 1), 1.5, 2 * kError);
  row.dynatemp_exponent = 1;
  row.dynatemp_range = 3;  // from 0 to 4
  EXPECT_NEAR(temperature_of(logits, row, 1), 3.5, 4 * kError);
  row = chain({FilterStep::top_k, FilterStep::temperature});  // 2/3 and 1/3: 0.91830 bits
  row.chain_top_k = 2;
  row.chain_temperature = 0.25F;  // the entropy is that of temperature 1
  row.dynatemp_range = 1;
  EXPECT_NEAR(temperature_of(logits, row, 1), 2 * 0.9182958, 2 * kError);
  row.dynatemp_range = 0;
  EXPECT_EQ(temperature_of(logits, row, 1), 1.0F);
}

TEST(DynamicTemperature, EqualTokensHaveAllTheEntropy) {
  RowProcessing row;
  row.dynatemp_range = 0.25F;
  const std::vector<float> logits(1000, 3);
  EXPECT_EQ(reference::dynamic_temperature(logits, row, 0.5F), 0.75F);
  EXPECT_EQ(reference::dynamic_temperature({3, kBanned}, row, 0.5F), 0.75F) << "one token";
  EXPECT_EQ(reference::dynamic_temperature({3, -1e30F}, row, 0.5F), 0.25F) << "no entropy";
  row.dynatemp_range = 1;
  EXPECT_EQ(reference::dynamic_temperature({3, -1e30F}, row, 0.5F), 0x1p-126F) << "no temperature";
  row.dynatemp_range = 0x1p64F;
  EXPECT_EQ(reference::dynamic_temperature(logits, row, 0.5F), 0x1p64F);
}

TEST(DynamicTemperature, GreedyRowsStayGreedy) {
  RowProcessing row;
  row.dynatemp_range = 5;
  EXPECT_EQ(reference::dynamic_temperature({1, 2}, row, 0), 0.0F);
  SampleRequest request;
  request.temperature = 0.0F;
  const OneDraw drawn = draw_from({1, 2}, row, request);
  EXPECT_EQ(drawn.token, 1);
  EXPECT_EQ(drawn.support, 1);
}

TEST(DynamicTemperature, ValuesBeyondTheirRangesFail) {
  for (const float bad : {std::nanf(""), -0x1p-149F, 0x1.000002p64F, kInfinity}) {
    RowProcessing row;
    row.dynatemp_range = bad;
    EXPECT_EQ(process({0, 1}, row).status, RowStatus::invalid_probability_filter) << bad;
    row.dynatemp_range = 0;
    row.dynatemp_exponent = bad;
    EXPECT_EQ(process({0, 1}, row).status, RowStatus::invalid_probability_filter) << bad;
  }
}

TEST(DynamicTemperature, ProcessedLogitsAreThoseBeforeIt) {
  RowProcessing row;
  row.dynatemp_range = 0.5F;
  EXPECT_EQ(process({3, 1, 2}, row).logits, std::vector<float>({3, 1, 2}));
}

// In long double: the entropies as they are defined, and the power by the C library. The error of
// an entropy is that of reference/probability_filters.h, with a mean error of weights of at most
// 2^-22 + 2^-24 H; it is divided by ln n. A power h^e has e times its relative error.
TEST(DynamicTemperature, RandomRowsHaveTheTemperatureOfRealNumbers) {
  constexpr std::array<float, 5> kExponents = {1, 0.5F, 2, 3, 0.1F};
  std::mt19937_64 random(43);
  for (int number = 0; number < 2000; ++number) {
    const std::vector<float> logits = random_logits(random);
    RowProcessing row;
    row.dynatemp_range = std::ldexp(1.0F, static_cast<int>(random() % 5) - 3);
    row.dynatemp_exponent = kExponents[random() % kExponents.size()];
    const long double largest = *std::ranges::max_element(logits);
    long double total = 0, mean = 0, tokens = 0, spread = 0;
    for (const float x : logits) {
      if (x == kBanned) continue;
      total += std::exp(x - largest);
      mean += std::exp(x - largest) * (largest - x);
      tokens += 1;
    }
    if (tokens < 2) continue;
    mean /= total;
    for (const float x : logits) {
      if (x != kBanned) spread += std::exp(x - largest) / total * std::abs(largest - x - mean);
    }
    const long double entropy = mean + std::log(total), share = entropy / std::log(tokens);
    const long double weight_error = 0x1p-22L + 0x1p-24L * (mean + 40);
    const long double error = (2 * weight_error * (spread + 1) + 0x1p-31L) / entropy;
    const float temperature = reference::dynamic_temperature(logits, row, 1);
    const long double low = std::max(1 - row.dynatemp_range, 0.0F);
    const long double wide = 1 + static_cast<long double>(row.dynatemp_range) - low;
    const long double power = std::pow(share, static_cast<long double>(row.dynatemp_exponent));
    const long double bound =
        wide * power * row.dynatemp_exponent * error + 0x1p-23L * (low + wide);
    if (entropy < 0x1p-20L) continue;  // the rest of so little entropy is rounding
    EXPECT_NEAR(temperature, static_cast<double>(low + wide * power), static_cast<double>(bound))
        << number;
  }
}

}  // namespace
}  // namespace fairdraw::suites
