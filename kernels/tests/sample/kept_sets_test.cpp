// Kept sets must be the survivors of the filters, in the order of the outputs, and tokens must be
// drawn from them.
#include "fairdraw/kept_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/inputs/random_calls.h"
#include "tests/sample/kept_draws.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

using harness::HostArrays;
using harness::OwnedCall;

/// A call of `sample` with its tokens, masks and kept sets.
struct KeptCall {
  std::vector<std::int32_t> tokens, support, ids;
  std::vector<RowStatus> statuses;
  std::vector<float> filtered;
  std::vector<std::uint32_t> mask;
  std::vector<std::int64_t> offsets;
  std::vector<std::uint8_t> overflow;
  Error error;

  KeptCall(const SampleRequest& request, std::int64_t room) {
    const std::int64_t outputs =
        request.indices.given() ? request.indices.size : request.logits.rows;
    const std::int64_t drawn = outputs * request.num_samples;
    const std::int64_t words = (request.logits.vocab + 31) / 32;
    tokens.resize(static_cast<std::size_t>(drawn));
    filtered.resize(tokens.size());
    support.resize(static_cast<std::size_t>(outputs));
    statuses.resize(support.size());
    overflow.assign(support.size(), 77);
    offsets.assign(support.size() + 1, -77);
    ids.assign(static_cast<std::size_t>(room), -77);
    mask.assign(static_cast<std::size_t>(request.logits.rows * words), 0U);
    SampleResult result;
    result.tokens = {tokens.data(), drawn};
    result.statuses = {statuses.data(), outputs};
    result.support_size = {support.data(), outputs};
    result.logprob_filtered = {filtered.data(), drawn};
    result.mask = {mask.data(), request.logits.rows, words};
    error = sample_with_kept_sets(
        request, result,
        {{ids.data(), room}, {offsets.data(), outputs + 1}, {overflow.data(), outputs}},
        {CpuTarget::best, 1});
  }

  std::vector<std::int32_t> set(std::size_t output) const {
    return {ids.begin() + offsets[output], ids.begin() + offsets[output + 1]};
  }
};

std::vector<std::int32_t> ids_of(const std::uint32_t* words, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocab; ++id) {
    if (((words[id / 32] >> (id % 32)) & 1U) != 0) ids.push_back(id);
  }
  return ids;
}

TEST(KeptSets, AreTheMaskInCallsOfEveryKind) {
  std::int64_t sets = 0;
  for (std::uint64_t number = 0; number < budget(1500) && !HasFailure(); ++number) {
    const auto rows = static_cast<std::int64_t>(1 + number % 9);
    const auto vocab = static_cast<std::int64_t>(1 + number * 7919 % 1200);
    OwnedCall call = harness::random_call(number, rows, vocab);
    if (number % 3 == 0) call.processing = harness::random_processing(number, rows, vocab);
    HostArrays host;
    const SampleRequest request = harness::request_in(call, host);
    const KeptCall kept(request, call.outputs() * vocab);
    ASSERT_FALSE(kept.error) << kept.error.message;
    for (std::int64_t i = 0; i < call.outputs(); ++i) {
      const auto output = static_cast<std::size_t>(i);
      ASSERT_EQ(kept.overflow[output], 0);
      const std::vector<std::int32_t> set = kept.set(output);
      if (kept.statuses[output] != RowStatus::ok) {
        EXPECT_TRUE(set.empty());
        continue;
      }
      ++sets;
      EXPECT_EQ(set, ids_of(kept.mask.data() + call.row_of(i) * ((vocab + 31) / 32), vocab))
          << "call " << number << ", output " << i;
      EXPECT_EQ(static_cast<std::int32_t>(set.size()), kept.support[output]);
      for (std::int32_t s = 0; s < call.num_samples; ++s) {
        const std::int32_t token = kept.tokens[output * static_cast<std::size_t>(call.num_samples) +
                                               static_cast<std::size_t>(s)];
        EXPECT_TRUE(std::binary_search(set.begin(), set.end(), token));
      }
    }
  }
  EXPECT_GT(sets, is_reduced() ? 10 : 1000);
}

/// The test draws ten million tokens from rows with small sets, so that every token of each set is
/// drawn. A set has 10 to 40 equal tokens, and a row has 20000 draws under sanitizers. The
/// probability that a token is never drawn is below 40 (1 - 1/40)^20000 < 1e-200.
TEST(KeptSets, AreWhatIsDrawnFrom) {
  constexpr std::int64_t kVocab = 300;
  const std::int64_t rows = 25;
  const auto samples = static_cast<std::int32_t>(budget(400000));
  std::vector<float> logits;
  std::vector<std::int32_t> sizes;
  for (std::int64_t row = 0; row < rows; ++row) {
    sizes.push_back(static_cast<std::int32_t>(10 + row % 31));
    for (std::int64_t id = 0; id < kVocab; ++id) {
      logits.push_back((id * 7 + row) % kVocab < sizes.back() ? 3.0F : 2.5F);
    }
  }
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, rows, kVocab, kVocab};
  request.top_k = {sizes.data(), rows};
  request.num_samples = samples;
  request.seed = std::uint64_t{11};
  const KeptCall kept(request, rows * kVocab);
  ASSERT_FALSE(kept.error) << kept.error.message;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<std::int32_t> drawn(kept.tokens.begin() + row * samples,
                                    kept.tokens.begin() + (row + 1) * samples);
    std::sort(drawn.begin(), drawn.end());
    drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
    EXPECT_EQ(kept.set(static_cast<std::size_t>(row)), drawn) << "row " << row;
  }
}

/// The test draws ten million tokens from rows of every kind.
TEST(KeptSets, AreTheModelsAndHoldEveryTokenThatIsDrawn) {
  const auto draws = static_cast<std::int64_t>(budget(10000000));
  const std::int64_t drawn = compare_kept_draws(draws, [](const RandomRow& row, KeptDraws& got) {
    SampleResult result;
    result.tokens = {got.tokens.data(), kDrawsOfARow};
    result.statuses = {got.statuses.data(), 1};
    HostArrays arrays;
    const Error error = sample_with_kept_sets(request_of(row, kDrawsOfARow), result,
                                              got.kept.in(arrays), {CpuTarget::best, 1});
    EXPECT_FALSE(error) << error.message;
  });
  EXPECT_GE(drawn, draws);
  RecordProperty("draws", std::to_string(drawn));
}

TEST(KeptSets, GiveTheDrawnTokensLogProbabilityAgain) {
  for (std::uint64_t number = 0; number < budget(400) && !HasFailure(); ++number) {
    const auto vocab = static_cast<std::int64_t>(1 + number * 7919 % 1200);
    OwnedCall call = harness::random_call(number, 3, vocab);
    call.indices.clear();
    call.num_samples = 1;
    call.seed = call.offset = {};
    call.seed.scalar = number;
    HostArrays host;
    const SampleRequest request = harness::request_in(call, host);
    const KeptCall kept(request, 3 * vocab);
    ASSERT_FALSE(kept.error) << kept.error.message;
    // The request has the same logits and temperature, but the kept set replaces the filters.
    const std::int64_t words = (vocab + 31) / 32;
    std::vector<std::uint32_t> allowed(static_cast<std::size_t>(3 * words), 0U);
    for (std::size_t row = 0; row < 3; ++row) {
      for (const std::int32_t id : kept.set(row)) {
        allowed[row * static_cast<std::size_t>(words) + static_cast<std::size_t>(id / 32)] |=
            1U << (id % 32);
      }
    }
    SampleRequest replay;
    replay.logits = request.logits;
    replay.temperature = request.temperature;
    replay.allowed = {allowed.data(), 3, words};
    std::vector<float> values(3);
    LogprobsResult reports;
    reports.mode = LogprobsMode::processed_logprobs;
    reports.values = {values.data(), 3};
    ASSERT_FALSE(
        log_probabilities(replay, {kept.tokens.data(), 3}, reports, {}, {CpuTarget::best, 1}));
    for (std::size_t row = 0; row < 3; ++row) {
      if (kept.statuses[row] != RowStatus::ok) continue;
      EXPECT_EQ(values[row], kept.filtered[row]) << "call " << number << ", row " << row;
    }
  }
}

TEST(KeptSets, SayWhichOnesDidNotFit) {
  const std::vector<float> logits = {1, 1, 1, 0, 5, 0, 0, 0, 1, 1, 0, 0};
  const std::vector<std::int32_t> top_k = {3, 1, 2};
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, 3, 4, 4};
  request.top_k = {top_k.data(), 3};
  const KeptCall kept(request, 2);  // the first set has three tokens, so it does not fit
  ASSERT_FALSE(kept.error) << kept.error.message;
  EXPECT_EQ(kept.overflow, (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_EQ(kept.offsets, (std::vector<std::int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(kept.ids, (std::vector<std::int32_t>{0, -77}));
  EXPECT_EQ(kept.support, (std::vector<std::int32_t>{3, 1, 2}));
}

}  // namespace
}  // namespace fairdraw::suites
