// `sample` on every instruction set is compared with the integer model, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>

#include "common/philox.h"
#include "fairdraw/sample.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

constexpr int kSamples = 4;

/// All results that a call of `sample` gives for one row.
struct Sampled {
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(kSamples, -7);
  RowStatus status = RowStatus::index_out_of_range;
  std::int32_t support_size = -7;
  std::vector<float> logprob = std::vector<float>(kSamples, NAN);
  std::vector<float> logprob_filtered = std::vector<float>(kSamples, NAN);
  std::vector<std::uint32_t> mask;
  std::vector<float> probs;
};

/// Samples a row. If `whole` is true, the call also requests masks and probabilities, which makes
/// it take another path.
Sampled sample_row(const RandomRow& row, CpuTarget target, bool whole) {
  Sampled sampled;
  const auto vocab = static_cast<std::int64_t>(row.logits.size());
  SampleResult result;
  result.tokens = {sampled.tokens.data(), kSamples};
  result.statuses = {&sampled.status, 1};
  if (whole) {
    sampled.mask.assign(static_cast<std::size_t>((vocab + 31) / 32), 0xcacacacaU);
    sampled.probs.assign(row.logits.size(), -7.0F);
    result.support_size = {&sampled.support_size, 1};
    result.logprob = {sampled.logprob.data(), kSamples};
    result.logprob_filtered = {sampled.logprob_filtered.data(), kSamples};
    result.mask = {sampled.mask.data(), 1, static_cast<std::int64_t>(sampled.mask.size())};
    result.probs = {sampled.probs.data(), 1, vocab};
  }
  const Error error = sample(request_of(row, kSamples), result, {target, 1});
  if (error) sampled.tokens.assign(kSamples, -99);
  return sampled;
}

/// Returns a bound on the error of the log-probability of a token, y octaves below the maximum,
/// that follows from the stated error of weights. The relative error of the sum is at most that of
/// its terms, which is largest for terms at the end of their range. The largest weight, which is
/// the unit of the expected sum, has an error of its own. The token's own term is exact except for
/// rounding to double. The result is rounded to float32 once.
double logprob_bound(const reference::IntegerRow& expected, double value) {
  const auto vocab = static_cast<double>(expected.weight.size());
  const double terms = 2 * 0x1p-22 + 0x1p-24 * std::log(2.0) * 48.0 + vocab * 0x1p-48;
  return terms + 0x1p-24 * std::fabs(value) + 0x1p-126;
}

/// Returns the first difference, or an empty string.
std::string compare(const RandomRow& row, const reference::IntegerRow& expected, const Sampled& got,
                    bool whole) {
  if (got.status != expected.status) {
    return fmt::format("status {} instead of {}", to_string(got.status),
                       to_string(expected.status));
  }
  for (int s = 0; s < kSamples; ++s) {
    const std::int32_t must =
        token_of(expected, {row.seed, row.offset, Purpose::draw, static_cast<std::uint32_t>(s)});
    const std::int32_t token = got.tokens[static_cast<std::size_t>(s)];
    if (token != must) return fmt::format("sample {}: token {} instead of {}", s, token, must);
  }
  if (!whole) return {};
  const bool ok = expected.status == RowStatus::ok;
  if (got.support_size != (ok ? expected.support_size : 0)) {
    return fmt::format("support {} instead of {}", got.support_size, expected.support_size);
  }
  for (std::size_t i = 0; i < row.logits.size(); ++i) {
    const bool kept = ((got.mask[i / 32] >> (i % 32)) & 1U) != 0;
    const bool must = ok && expected.mask[i] != 0;
    if (kept != must) return fmt::format("mask of {}: {} instead of {}", i, kept, must);
    const float probability = ok ? expected.probability(static_cast<std::int32_t>(i)) : 0.0F;
    if (std::bit_cast<std::uint32_t>(got.probs[i]) != std::bit_cast<std::uint32_t>(probability)) {
      return fmt::format("probability of {}: {:a} instead of {:a}", i, got.probs[i], probability);
    }
  }
  if (!ok) return {};
  if (row.logits.size() % 32 != 0 && (got.mask.back() >> (row.logits.size() % 32)) != 0) {
    return "mask has bits beyond the vocabulary";
  }
  // A log-probability is (x - max) / T - ln(sum), with T = 1 for greedy rows at temperature 0.
  const float temperature = row.parameters.temperature;
  double largest = -std::numeric_limits<double>::infinity();
  double unit = 1;
  for (std::size_t i = 0; i < row.logits.size(); ++i) {
    if (expected.mask[i] == 0 || static_cast<double>(row.logits[i]) < largest) continue;
    largest = static_cast<double>(row.logits[i]);
    unit = static_cast<double>(expected.weight[i]);
  }
  for (std::size_t s = 0; s < kSamples; ++s) {
    const double distance =
        static_cast<double>(row.logits[static_cast<std::size_t>(got.tokens[s])]) - largest;
    const double scaled = distance / static_cast<double>(temperature == 0 ? 1.0F : temperature);
    if (expected.greedy_token >= 0) {
      if (got.logprob_filtered[s] != 0.0F) return "log-probability of a greedy token is not 0";
      continue;
    }
    const double filtered = scaled - std::log(static_cast<double>(expected.total) / unit);
    const double unfiltered =
        scaled - std::log(static_cast<double>(expected.total_unfiltered) / unit);
    if (std::fabs(static_cast<double>(got.logprob_filtered[s]) - filtered) >
        logprob_bound(expected, filtered)) {
      return fmt::format("log-probability {} instead of {}", got.logprob_filtered[s], filtered);
    }
    if (std::fabs(static_cast<double>(got.logprob[s]) - unfiltered) >
        logprob_bound(expected, unfiltered)) {
      return fmt::format("log-probability {} instead of {}", got.logprob[s], unfiltered);
    }
  }
  return {};
}

reference::IntegerRow expectation(const RandomRow& row) {
  return reference::integer_model(row.logits, row.allowed, row.parameters, row.tie_rule,
                                  row.filter_order);
}

void compare_many(std::uint64_t first, std::uint64_t rows, std::size_t vocab) {
  const std::vector<CpuTarget> targets = available_targets();
  std::atomic<std::uint64_t> ok_rows{0};
  std::atomic<int> reported{0};
  std::mutex mutex;
#pragma omp parallel for schedule(dynamic, 16)
  for (std::uint64_t i = 0; i < rows; ++i) {
    const RandomRow row = vocab == 0 ? random_row(first + i) : random_row_of(first + i, vocab);
    const reference::IntegerRow expected = expectation(row);
    if (expected.status == RowStatus::ok) ++ok_rows;
    for (const CpuTarget target : targets) {
      for (const bool whole : {false, true}) {
        const std::string difference =
            compare(row, expected, sample_row(row, target, whole), whole);
        if (!difference.empty() && reported++ < 20) {
          const std::lock_guard<std::mutex> lock(mutex);
          ADD_FAILURE() << describe(row) << " on " << to_string(target) << ": " << difference;
        }
      }
    }
  }
  // Most rows must be valid, otherwise the comparison says little.
  EXPECT_GT(ok_rows.load(), rows / 2);
}

TEST(SampleDifferential, HundredThousandRowsOfSmallVocabulariesEqualTheIntegerModel) {
  compare_many(0, budget(100000), 0);
}

TEST(SampleDifferential, RowsAtEngineVocabulariesEqualTheIntegerModel) {
  for (const std::size_t vocab : {32000U, 50304U, 131072U}) {
    compare_many(1000000 + vocab, std::max<std::uint64_t>(2, budget(60)), vocab);
  }
}

TEST(SampleDifferential, LargestVocabularyEqualsTheIntegerModel) {
  compare_many(2000000, std::max<std::uint64_t>(2, budget(6)), std::size_t{1} << 20);
}

TEST(SampleDifferential, SizesAroundTheBlockAndTheVectorEqualTheIntegerModel) {
  for (const std::size_t vocab : {1U, 2U, 15U, 16U, 17U, 31U, 32U, 33U, 511U, 512U, 513U, 4095U,
                                  4096U, 4097U, 4608U, 8193U}) {
    compare_many(3000000 + vocab * 1000, std::max<std::uint64_t>(4, budget(60)), vocab);
  }
}

}  // namespace
}  // namespace fairdraw::suites
