// Log-probabilities on every instruction set are compared with the real-number oracle: values
// within the bound that the header states, and exact ids and ranks. Every form in which one value
// is reported must have the same bits.
#include "fairdraw/log_probabilities.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>

#include "fairdraw/sample.h"
#include "harness/inputs/narrow_floats.h"
#include "reference/log_probabilities.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kSamples = 3;
constexpr LogprobsMode kModes[] = {LogprobsMode::raw_logits, LogprobsMode::raw_logprobs,
                                   LogprobsMode::processed_logits,
                                   LogprobsMode::processed_logprobs};

/// A row in a dtype, and the reports that the test requests.
struct Question {
  RandomRow row;
  DType dtype = DType::float32;
  std::vector<std::uint16_t> narrow;  // the row in a 16-bit dtype
  LogprobsMode mode = LogprobsMode::raw_logprobs;
  RankRule rank_rule = RankRule::position;
  std::int32_t top_n = 0;
};

/// All reports of one row, which are filled beforehand with patterns that no call writes.
struct Report {
  RowStatus status = RowStatus::index_out_of_range;
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(kSamples, -7);
  std::vector<float> logprob = std::vector<float>(kSamples, NAN);
  std::vector<float> logprob_filtered = std::vector<float>(kSamples, NAN);
  std::vector<float> values = std::vector<float>(kSamples, NAN);
  std::vector<std::int32_t> ranks = std::vector<std::int32_t>(kSamples, -7);
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_values;
  std::vector<float> all;

  bool same_bits(const Report& other) const {
    const auto bits = [](const std::vector<float>& floats) {
      std::vector<std::uint32_t> result;
      for (const float x : floats) result.push_back(std::bit_cast<std::uint32_t>(x));
      return result;
    };
    return status == other.status && tokens == other.tokens && ranks == other.ranks &&
           top_ids == other.top_ids && bits(values) == bits(other.values) &&
           bits(top_values) == bits(other.top_values) && bits(all) == bits(other.all);
  }
};

SampleRequest request_of(const Question& question) {
  SampleRequest request = request_of(question.row, kSamples);
  if (question.dtype != DType::float32) request.logits.data = question.narrow.data();
  request.logits.dtype = question.dtype;
  return request;
}

LogprobsResult result_of(const Question& question, Report& report, bool whole) {
  LogprobsResult result;
  result.mode = question.mode;
  result.rank_rule = question.rank_rule;
  result.top_n = question.top_n;
  result.values = {report.values.data(), kSamples};
  result.ranks = {report.ranks.data(), kSamples};
  if (question.top_n > 0) {
    report.top_ids.assign(static_cast<std::size_t>(question.top_n), -7);
    report.top_values.assign(static_cast<std::size_t>(question.top_n), NAN);
    result.top_ids = {report.top_ids.data(), question.top_n};
    result.top_values = {report.top_values.data(), question.top_n};
  }
  if (whole) {
    report.all.assign(question.row.logits.size(), NAN);
    const auto vocab = static_cast<std::int64_t>(report.all.size());
    result.all = {report.all.data(), 1, vocab};
  }
  return result;
}

Report sampled(const Question& question, CpuTarget target, bool whole) {
  Report report;
  SampleResult result;
  result.tokens = {report.tokens.data(), kSamples};
  result.statuses = {&report.status, 1};
  result.logprob = {report.logprob.data(), kSamples};
  result.logprob_filtered = {report.logprob_filtered.data(), kSamples};
  result.logprobs = result_of(question, report, whole);
  const Error error = sample(request_of(question), result, {target, 1});
  if (error) ADD_FAILURE() << error.message;
  return report;
}

/// Returns the reports of given tokens for the same row.
Report of_given(const Question& question, const std::vector<std::int32_t>& tokens,
                CpuTarget target) {
  Report report;
  report.tokens = tokens;
  const Error error =
      log_probabilities(request_of(question), {tokens.data(), kSamples},
                        result_of(question, report, true), {&report.status, 1}, {target, 1});
  if (error) ADD_FAILURE() << error.message;
  return report;
}

std::string compare_value(const reference::RealLogprobs& real, std::int32_t token, float observed) {
  if (std::isnan(observed)) return fmt::format("value of token {} is NaN", token);
  const auto at = static_cast<std::size_t>(token);
  const double expected = real.value[at];
  const auto value = static_cast<double>(observed);
  const bool close =
      std::isinf(expected) ? value == expected : std::fabs(value - expected) <= real.bound[at];
  if (close) return {};
  return fmt::format("value of token {} is {}, expected {:.9g} within {:.2e}", token, observed,
                     expected, real.bound[at]);
}

/// Returns the first difference, or an empty string.
std::string compare(const Question& question, const reference::RealLogprobs& real,
                    const Report& got) {
  for (std::size_t s = 0; s < kSamples; ++s) {
    const std::int32_t token = got.tokens[s];
    if (std::string wrong = compare_value(real, token, got.values[s]); !wrong.empty()) return wrong;
    const std::int32_t rank = real.rank(token, question.rank_rule);
    if (got.ranks[s] != rank) {
      return fmt::format("rank of token {} is {}, expected {}", token, got.ranks[s], rank);
    }
  }
  for (std::size_t i = 0; i < got.top_ids.size(); ++i) {
    const std::int32_t expected = i < real.order.size() ? real.order[i] : -1;
    if (got.top_ids[i] != expected) {
      return fmt::format("entry {} of the top is {}, expected {}", i, got.top_ids[i], expected);
    }
    const float listed = got.top_values[i];
    if (expected < 0) {
      if (listed != -kInfinity) return fmt::format("entry {} of the top has value {}", i, listed);
      continue;
    }
    if (std::string wrong = compare_value(real, expected, listed); !wrong.empty()) return wrong;
    if (got.all.empty()) continue;
    if (std::bit_cast<std::uint32_t>(listed) !=
        std::bit_cast<std::uint32_t>(got.all[static_cast<std::size_t>(expected)])) {
      return fmt::format("entry {} of the top is not the whole row's value", i);
    }
  }
  for (std::size_t token = 0; token < got.all.size(); ++token) {
    const std::string wrong = compare_value(real, static_cast<std::int32_t>(token), got.all[token]);
    if (!wrong.empty()) return "of the whole row: " + wrong;
  }
  return {};
}

std::string compare_failed(const Question& question, const Report& got) {
  const auto none = [](float x) { return x == -kInfinity; };
  const bool nothing =
      std::all_of(got.values.begin(), got.values.end(), none) &&
      std::all_of(got.top_values.begin(), got.top_values.end(), none) &&
      std::all_of(got.all.begin(), got.all.end(), none) &&
      got.ranks == std::vector<std::int32_t>(kSamples, 0) &&
      got.top_ids == std::vector<std::int32_t>(static_cast<std::size_t>(question.top_n), -1);
  return nothing ? "" : "a failed row has log-probabilities";
}

/// Compares the two results that report the same log-probability.
std::string compare_with_logprob(const Question& question, const Report& got) {
  const bool no_bans = question.row.allowed.empty();
  for (std::size_t s = 0; s < kSamples; ++s) {
    const bool filtered = question.mode == LogprobsMode::processed_logprobs;
    const bool unfiltered = question.mode == LogprobsMode::raw_logprobs && no_bans &&
                            question.row.parameters.temperature == 1;
    if (!filtered && !unfiltered) return {};
    const float other = filtered ? got.logprob_filtered[s] : got.logprob[s];
    if (std::isinf(other))
      continue;  // beyond the range of float32, this report has the lowest
                 // finite number instead
    if (got.values[s] != other) {
      return fmt::format("value {} of token {} is {} by another name", got.values[s], got.tokens[s],
                         other);
    }
  }
  return {};
}

/// Derives row and question from a number, so that modes, rank rules, sizes of the top and dtypes
/// alternate.
Question question_of(std::uint64_t number, std::size_t vocab) {
  Question question;
  question.row = vocab == 0 ? random_row(number) : random_row_of(number, vocab);
  question.mode = kModes[number % 4];
  question.rank_rule = number / 4 % 2 == 0 ? RankRule::position : RankRule::at_least;
  constexpr std::int32_t kSizes[] = {0, 1, 2, 5, 20, 63, kLargestTopN};
  question.top_n = kSizes[number / 8 % std::size(kSizes)];
  question.dtype = static_cast<DType>(number / 7 % 3);
  if (question.dtype == DType::float32) return question;
  const bool half = question.dtype == DType::float16;
  for (float& x : question.row.logits) {
    const std::uint16_t bits = half ? harness::to_float16(x) : harness::to_bfloat16(x);
    question.narrow.push_back(bits);
    x = half ? reference::float_from_half(bits) : reference::float_from_bfloat16(bits);
  }
  return question;
}

reference::RealLogprobs expectation(const Question& question,
                                    const reference::IntegerRow& integers) {
  if (is_raw(question.mode)) {
    return reference::real_log_probabilities(question.row.logits, {}, question.mode, 1);
  }
  return reference::real_log_probabilities(question.row.logits, integers.mask, question.mode,
                                           question.row.parameters.temperature);
}

std::string judge(const Question& question, const std::vector<CpuTarget>& targets,
                  std::atomic<std::uint64_t>& ok_rows) {
  const RandomRow& row = question.row;
  const reference::IntegerRow integers = reference::integer_model(
      row.logits, row.allowed, row.parameters, row.tie_rule, row.filter_order);
  const bool ok = integers.status == RowStatus::ok;
  const reference::RealLogprobs real =
      ok ? expectation(question, integers) : reference::RealLogprobs{};
  if (ok) ++ok_rows;
  const Report first = sampled(question, targets.front(), true);
  for (const CpuTarget target : targets) {
    const Report got = sampled(question, target, true);
    if (!first.same_bits(got)) return std::string("other bits on ") + to_string(target);
    // Leaving out the report of the whole row must change no other result.
    Report part = sampled(question, target, false);
    part.all = got.all;
    if (!first.same_bits(part)) return std::string("other bits without it on ") + to_string(target);
  }
  if (first.status != integers.status) return "status";
  std::string wrong = ok ? compare(question, real, first) : compare_failed(question, first);
  if (wrong.empty() && ok) wrong = compare_with_logprob(question, first);
  if (!wrong.empty() || !ok) return wrong;
  // The given tokens lie anywhere in the vocabulary, and include masked and banned ones.
  const auto vocab = static_cast<std::uint64_t>(row.logits.size());
  const std::vector<std::int32_t> tokens = {
      static_cast<std::int32_t>(row.number % vocab), static_cast<std::int32_t>(vocab - 1),
      static_cast<std::int32_t>(row.number * 0x9e3779b97f4a7c15 % vocab)};
  for (const CpuTarget target : targets) {
    wrong = compare(question, real, of_given(question, tokens, target));
    if (!wrong.empty()) return "of given tokens: " + wrong;
  }
  return {};
}

void judge_many(std::uint64_t first, std::uint64_t rows, std::size_t vocab) {
  const std::vector<CpuTarget> targets = available_targets();
  std::atomic<std::uint64_t> ok_rows{0};
  std::atomic<int> reported{0};
  std::mutex mutex;
#pragma omp parallel for schedule(dynamic, 16)
  for (std::uint64_t i = 0; i < rows; ++i) {
    const Question question = question_of(first + i, vocab);
    const std::string wrong = judge(question, targets, ok_rows);
    if (wrong.empty() || reported++ >= 20) continue;
    const std::lock_guard<std::mutex> lock(mutex);
    ADD_FAILURE() << describe(question.row) << ", " << to_string(question.mode) << ", "
                  << to_string(question.rank_rule) << ", top " << question.top_n << ", "
                  << to_string(question.dtype) << ": " << wrong;
  }
  // Most rows must be valid, otherwise the comparison says little.
  EXPECT_GT(ok_rows.load(), rows / 2);
}

TEST(LogProbabilities, OfRowsOfSmallVocabulariesAreTheOracles) { judge_many(0, budget(20000), 0); }

TEST(LogProbabilities, OfRowsAtEngineVocabulariesAreTheOracles) {
  for (const std::size_t vocab : {32000U, 128256U}) {
    judge_many(1000000 + vocab, std::max<std::uint64_t>(4, budget(56)), vocab);
  }
}

TEST(LogProbabilities, SizesAroundTheBlockAndTheTopAreTheOracles) {
  for (const std::size_t vocab : {1U, 2U, 31U, 33U, 127U, 128U, 129U, 511U, 513U, 4096U, 4097U}) {
    judge_many(3000000 + vocab * 1000, std::max<std::uint64_t>(56, budget(168)), vocab);
  }
}

}  // namespace
}  // namespace fairdraw::suites
