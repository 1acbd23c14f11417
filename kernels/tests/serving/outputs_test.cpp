// Several outputs of one prompt are tested from their seeds to the choice of the best outputs:
// sample, check_stop, add_logprobs and best_of are called together, as in an engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fairdraw/parallel_sampling.h"
#include "fairdraw/sample.h"
#include "fairdraw/stop_criteria.h"
#include "tests/serving/beam_problems.h"
#include "tests/serving/token_list_rows.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kVocab = 40;
constexpr std::int32_t kEos = 3;
constexpr std::int32_t kMinTokens = 2;
constexpr std::int32_t kMaxTokens = 30;

struct Output {
  std::int32_t number = 0;  // number of the output within its prompt
  std::uint64_t seed = 0;
  std::vector<std::int32_t> tokens;
  double cumulative = 0;
  FinishReason reason = FinishReason::none;

  bool operator==(const Output&) const = default;
};

std::vector<float> row_after(const std::vector<std::int32_t>& tokens) {
  return hashed_row(99, tokens, kVocab, false);
}

template <class T>
View<T> view_of(std::vector<T>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size())};
}

/// Runs one step of the unfinished outputs; `at` has their positions.
void step(std::vector<Output>& outputs, const std::vector<std::size_t>& at) {
  const auto n = static_cast<std::int64_t>(at.size());
  std::vector<float> logits;
  std::vector<std::uint64_t> seeds, offsets;
  std::vector<std::vector<std::int32_t>> before;
  std::vector<double> sums;
  for (const std::size_t i : at) {
    const std::vector<float> row = row_after(outputs[i].tokens);
    logits.insert(logits.end(), row.begin(), row.end());
    seeds.push_back(outputs[i].seed);
    offsets.push_back(outputs[i].tokens.size());
    before.push_back(outputs[i].tokens);
    sums.push_back(outputs[i].cumulative);
  }
  std::vector<std::int32_t> tokens(at.size(), -7);
  std::vector<float> logprobs(at.size(), -7);
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, n, kVocab, kVocab};
  request.seed = {seeds.data(), n};
  request.offset = {offsets.data(), n};
  SampleResult result;
  result.tokens = view_of(tokens);
  result.logprob = view_of(logprobs);
  ASSERT_FALSE(sample(request, result, {CpuTarget::best, 1}));

  const TokenListRows lists(before);
  const TokenListRows sequences(std::vector<std::vector<std::int32_t>>(at.size(), {5, 6}));
  const TokenListRows lengths(std::vector<std::vector<std::int32_t>>(at.size(), {2}));
  std::vector<FinishReason> reasons(at.size());
  std::vector<std::int32_t> kept(at.size(), -7);
  StopRequest stop;
  stop.requests = n;
  stop.vocab = kVocab;
  stop.step_tokens = {tokens.data(), n};
  stop.output = lists.lists();
  stop.criteria.eos_id = kEos;
  stop.criteria.stop_sequences = sequences.lists();
  stop.criteria.stop_sequence_lengths = lengths.lists();
  stop.criteria.min_tokens = kMinTokens;
  stop.criteria.max_tokens = kMaxTokens;
  StopResult stopped;
  stopped.reasons = view_of(reasons);
  stopped.kept = view_of(kept);
  ASSERT_FALSE(check_stop(stop, stopped));
  LogprobStep sum;
  sum.logprobs = {logprobs.data(), n};
  sum.kept = {kept.data(), n};
  ASSERT_FALSE(add_logprobs(sum, view_of(sums)));
  for (std::size_t i = 0; i < at.size(); ++i) {
    Output& output = outputs[at[i]];
    ASSERT_EQ(kept[i], 1);
    output.tokens.push_back(tokens[i]);
    output.cumulative = sums[i];
    output.reason = reasons[i];
  }
}

/// Generates n outputs of the prompt with this seed; if `backwards` is true, every batch has them
/// in reverse order.
std::vector<Output> generate(std::uint64_t seed, std::int32_t n, bool backwards) {
  std::vector<std::uint64_t> children(static_cast<std::size_t>(n));
  EXPECT_FALSE(child_seeds({&seed, 1}, n, view_of(children)));
  std::vector<Output> outputs(children.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].number = static_cast<std::int32_t>(i);
    outputs[i].seed = children[i];
  }
  for (;;) {
    std::vector<std::size_t> unfinished;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].reason == FinishReason::none) unfinished.push_back(i);
    }
    if (unfinished.empty()) return outputs;
    if (backwards) std::reverse(unfinished.begin(), unfinished.end());
    step(outputs, unfinished);
    if (testing::Test::HasFatalFailure()) return outputs;
  }
}

TEST(OutputsOfAPrompt, AreTheSameWhateverIsGeneratedBesideThem) {
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{77}}) {
    const std::vector<Output> all = generate(seed, 16, false);
    EXPECT_EQ(generate(seed, 16, true), all);
    for (const std::int32_t n : {1, 2, 7}) {
      EXPECT_EQ(generate(seed, n, false), std::vector<Output>(all.begin(), all.begin() + n));
    }
  }
}

TEST(OutputsOfAPrompt, EndForTheReasonThatTheirTokensShow) {
  int reasons[kFinishReasons] = {};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const Output& output : generate(seed, 16, false)) {
      ++reasons[static_cast<std::size_t>(output.reason)];
      const auto length = static_cast<std::int32_t>(output.tokens.size());
      EXPECT_GE(length, kMinTokens);
      EXPECT_LE(length, kMaxTokens);
      const bool eos = output.tokens.back() == kEos;
      EXPECT_EQ(output.reason == FinishReason::eos, eos);
      const bool sequence = output.tokens.back() == 6 && output.tokens.end()[-2] == 5;
      EXPECT_EQ(output.reason == FinishReason::stop_sequence, sequence);
      EXPECT_EQ(output.reason == FinishReason::length, !eos && !sequence);
      for (std::size_t i = kMinTokens; i < output.tokens.size(); ++i) {
        EXPECT_NE(output.tokens[i - 1], kEos);  // nothing follows a stop
      }
    }
  }
  EXPECT_GT(reasons[static_cast<std::size_t>(FinishReason::eos)], 0);
  EXPECT_GT(reasons[static_cast<std::size_t>(FinishReason::stop_sequence)], 0);
  EXPECT_GT(reasons[static_cast<std::size_t>(FinishReason::length)], 0);
}

TEST(OutputsOfAPrompt, TheBestHasTheLargestLogProbability) {
  const std::vector<Output> outputs = generate(5, 16, false);
  std::vector<double> sums;
  std::vector<std::int32_t> lengths;
  for (const Output& output : outputs) {
    sums.push_back(output.cumulative);
    lengths.push_back(static_cast<std::int32_t>(output.tokens.size()));
    // The log-probability of the whole output, computed in real numbers. Logits lie in [0, 4), so
    // they are at most 5.8 octaves below the maximum. So the error of a weight, and with it that of
    // log Z, is at most 2^-22 + 2^-24 * ln 2 * 5.8 = 4.8e-7 (kernels/README.md). A log-probability
    // is above -8, and its rounding to float32 changes it by at most 2^-22. Together the error is
    // below 2^-20 per token.
    double real = 0;
    std::vector<std::int32_t> prefix;
    for (const std::int32_t token : output.tokens) {
      const std::vector<float> row = row_after(prefix);
      double mass = 0;
      for (const float x : row) mass += std::exp(static_cast<double>(x));
      real += static_cast<double>(row[static_cast<std::size_t>(token)]) - std::log(mass);
      prefix.push_back(token);
    }
    EXPECT_LE(std::abs(output.cumulative - real), 0x1p-20 * lengths.back());
  }
  for (const double penalty : {0.0, 1.0}) {
    std::vector<std::int32_t> chosen(4, -7);
    BestOfRequest request;
    request.prompts = 1;
    request.candidates = 16;
    request.n = 4;
    request.cumulative = {sums.data(), 16};
    request.lengths = {lengths.data(), 16};
    request.length_penalty = penalty;
    BestOfResult result;
    result.chosen = view_of(chosen);
    ASSERT_FALSE(best_of(request, result));
    const auto score = [&](std::int32_t i) {
      const auto at = static_cast<std::size_t>(i);
      return penalty == 0 ? sums[at] : sums[at] / lengths[at];
    };
    for (std::int32_t i = 0; i < 16; ++i) {
      const bool is_chosen = std::find(chosen.begin(), chosen.end(), i) != chosen.end();
      EXPECT_EQ(is_chosen, score(i) >= score(chosen.back())) << i;
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
