// Reports of log-probabilities on the GPU are compared with the CPU's, which the reference judges.
// Ids, ranks and statuses must be equal, and values within one unit in the last place. Drawn and
// given tokens are compared in every mode, with and without processing, on every path through the
// kernels.
#include "fairdraw/log_probabilities.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/float_order.h"
#include "fairdraw/cuda.h"
#include "tests/cuda/arrays.h"
#include "tests/sample/reduced.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {
namespace {

/// The requested reports of a call and their results. The results are filled beforehand with a
/// pattern that no call writes.
struct Reports {
  LogprobsMode mode = LogprobsMode::raw_logprobs;
  RankRule rank_rule = RankRule::position;
  std::int32_t top_n = 0;
  std::int64_t stride = 0;
  std::vector<std::int32_t> tokens, ranks, top_ids;
  std::vector<float> values, top_values, all;
  std::vector<RowStatus> statuses;

  /// Chooses reports and modes by `number`, so that every combination of results occurs.
  Reports(const OwnedCall& call, std::uint64_t number) {
    std::mt19937_64 random(number);
    mode = static_cast<LogprobsMode>(number % 4);
    rank_rule = static_cast<RankRule>(random() % 2);
    const std::int32_t sizes[] = {0, 1, 2, 20, 127, 128};
    top_n = sizes[random() % 6];
    stride = call.vocab + static_cast<std::int64_t>(random() % 3);
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const std::int64_t outputs = call.outputs();
    const std::int64_t samples = outputs * call.num_samples;
    tokens.assign(size(samples), -7);
    statuses.assign(size(outputs), RowStatus::impossible_draft);
    const std::uint64_t wanted = random();
    if (wanted % 4 != 0) values.assign(size(samples), 77.0F);
    if (wanted / 4 % 4 != 0) ranks.assign(size(samples), -7);
    if (top_n > 0) top_ids.assign(size(outputs * top_n), -7);
    if (top_n > 0 && wanted / 16 % 4 != 0) top_values.assign(top_ids.size(), 77.0F);
    if (wanted / 64 % 4 == 0) all.assign(size(call.rows * stride), 77.0F);
  }

  template <class Arrays>
  LogprobsResult result_in(const OwnedCall& call, Arrays& arrays) {
    const auto view = [&arrays](auto& array) {
      return View(arrays.out(array), static_cast<std::int64_t>(array.size()));
    };
    LogprobsResult result;
    result.mode = mode;
    result.rank_rule = rank_rule;
    result.top_n = top_n;
    result.values = view(values);
    result.ranks = view(ranks);
    result.top_ids = view(top_ids);
    result.top_values = view(top_values);
    if (!all.empty()) result.all = {arrays.out(all), call.rows, stride};
    return result;
  }

  template <class Arrays>
  SampleResult sample_result_in(const OwnedCall& call, Arrays& arrays) {
    SampleResult result;
    result.tokens = {arrays.out(tokens), static_cast<std::int64_t>(tokens.size())};
    result.statuses = {arrays.out(statuses), static_cast<std::int64_t>(statuses.size())};
    result.logprobs = result_in(call, arrays);
    return result;
  }
};

/// Returns whether two values differ by at most one unit in the last place; -inf equals only
/// itself.
bool values_agree(float a, float b) {
  if (std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b)) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::llabs(std::int64_t{order_key(a)} - std::int64_t{order_key(b)}) <= 1;
}

std::string difference(const Reports& expected, const Reports& got) {
  const auto equal = [](const char* what, const auto& a, const auto& b) -> std::string {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) {
        return fmt::format("{} {}: {} expected, got {}; ", what, i, static_cast<std::int64_t>(a[i]),
                           static_cast<std::int64_t>(b[i]));
      }
    }
    return "";
  };
  const auto close = [](const char* what, const auto& a, const auto& b) -> std::string {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!values_agree(a[i], b[i])) {
        return fmt::format("{} {}: {:a} expected, got {:a}; ", what, i, a[i], b[i]);
      }
    }
    return "";
  };
  return equal("status", expected.statuses, got.statuses) +
         equal("token", expected.tokens, got.tokens) + equal("rank", expected.ranks, got.ranks) +
         equal("top id", expected.top_ids, got.top_ids) +
         close("value", expected.values, got.values) +
         close("top value", expected.top_values, got.top_values) +
         close("value of a row", expected.all, got.all);
}

std::string describe(const Reports& reports) {
  return fmt::format("{}, {}, top {}", to_string(reports.mode), to_string(reports.rank_rule),
                     reports.top_n);
}

class Comparison {
 public:
  void compare_samples(std::uint64_t number, const OwnedCall& call) {
    Reports expected(call, number);
    HostArrays host;
    const Error refused = sample(request_in(call, host), expected.sample_result_in(call, host));
    ASSERT_FALSE(refused) << refused.message;
    for (const cuda::Path path : available_paths()) {
      Reports got(call, number);
      arrays_.rewind();
      const SampleRequest request = request_in(call, arrays_);
      const SampleResult result = got.sample_result_in(call, arrays_);
      const Error error =
          cuda::sample(request, result, arrays_.execution(request, result.logprobs, path));
      expect_equal(number, call, error, expected, got, path);
    }
  }

  /// Compares reports of given tokens: tokens that were drawn for other rows, and a few invalid
  /// ids.
  void compare_given(std::uint64_t number, const OwnedCall& call) {
    Reports expected(call, number);
    std::mt19937_64 random(~number);
    std::vector<std::int32_t> tokens(expected.tokens.size());
    for (std::int32_t& token : tokens) {
      token = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(call.vocab));
      if (random() % 50 == 0)
        token = random() % 2 == 0 ? -1 : static_cast<std::int32_t>(call.vocab);
    }
    const auto given = static_cast<std::int64_t>(tokens.size());
    HostArrays host;
    const Error refused = log_probabilities(
        request_in(call, host), {tokens.data(), given}, expected.result_in(call, host),
        {expected.statuses.data(), static_cast<std::int64_t>(expected.statuses.size())});
    ASSERT_FALSE(refused) << refused.message;
    for (const cuda::Path path : available_paths()) {
      Reports got(call, number);
      arrays_.rewind();
      const SampleRequest request = request_in(call, arrays_);
      const LogprobsResult result = got.result_in(call, arrays_);
      const View<RowStatus> statuses = {arrays_.out(got.statuses),
                                        static_cast<std::int64_t>(got.statuses.size())};
      const Error error =
          cuda::log_probabilities(request, {arrays_.in(tokens), given}, result, statuses,
                                  arrays_.execution(request, result, path));
      expect_equal(number, call, error, expected, got, path);
    }
  }

  std::int64_t ok = 0, failed = 0;

 private:
  void expect_equal(std::uint64_t number, const OwnedCall& call, const Error& error,
                    const Reports& expected, const Reports& got, cuda::Path path) {
    ASSERT_FALSE(error) << "call " << number << ": " << error.message;
    arrays_.fetch();
    EXPECT_EQ(difference(expected, got), "")
        << "call " << number << " on " << cuda::to_string(path) << ", " << describe(expected)
        << "\n  " << describe_row(call, -1);
    for (const RowStatus status : expected.statuses) ++(status == RowStatus::ok ? ok : failed);
  }

  DeviceArrays arrays_;
};

OwnedCall call_of(std::uint64_t number) {
  std::mt19937_64 random(number * 0x9e3779b97f4a7c15);
  const std::vector<std::int64_t> large = {32000, 50304, 128256, 262144, kMaxVocab};
  const bool wide = number % 16 == 15 && !is_reduced();
  const auto vocab = wide
                         ? large[random() % large.size()]
                         : static_cast<std::int64_t>(1 + random() % (number % 2 == 0 ? 100 : 5000));
  const std::int64_t most = is_reduced() ? 20 : std::min<std::int64_t>(150, 2000000 / vocab);
  const auto rows = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(most));
  OwnedCall call = random_call(9000000 + number, rows, vocab);
  if (number % 3 == 0) call.processing = harness::random_processing(number, call.rows, call.vocab);
  return call;
}

TEST(CudaLogProbabilities, OfDrawnTokensEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Comparison comparison;
  const std::uint64_t calls = is_reduced() ? 12 : 800;
  for (std::uint64_t i = 0; i < calls && !HasFailure(); ++i) {
    comparison.compare_samples(i, call_of(i));
  }
  EXPECT_GT(comparison.ok, comparison.failed);
  EXPECT_GT(comparison.failed, 0);
}

/// Results of process_logits: the processed rows and the statuses of a call, in place if that is
/// allowed.
struct ProcessedRows {
  std::vector<float> rows;
  std::vector<RowStatus> statuses;
  std::int64_t stride;

  explicit ProcessedRows(const OwnedCall& call) : stride(call.vocab + 3) {
    rows.assign(static_cast<std::size_t>(call.rows * stride), 77.0F);
    statuses.assign(static_cast<std::size_t>(call.rows), RowStatus::impossible_draft);
  }
  template <class Arrays>
  ProcessLogitsResult result_in(const OwnedCall& call, Arrays& arrays) {
    return {{arrays.out(rows), call.rows, stride}, {arrays.out(statuses), call.rows}};
  }
  /// Returns whether both results have the same bits.
  bool operator==(const ProcessedRows& other) const {
    return statuses == other.statuses &&
           std::equal(rows.begin(), rows.end(), other.rows.begin(), [](float a, float b) {
             return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
           });
  }
};

template <class Arrays>
ProcessLogitsRequest process_request_in(const OwnedCall& call, Arrays& arrays) {
  const SampleRequest request = request_in(call, arrays);
  return {request.logits, request.processing, request.allowed, request.active};
}

TEST(CudaLogProbabilities, ProcessedRowsHaveTheCpusBits) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  const std::uint64_t calls = is_reduced() ? 12 : 400;
  for (std::uint64_t i = 0; i < calls; ++i) {
    OwnedCall call = call_of(200000 + i);
    if (i % 4 != 0) call.processing = harness::random_processing(i, call.rows, call.vocab);
    ProcessedRows expected(call);
    HostArrays host;
    const Error refused =
        process_logits(process_request_in(call, host), expected.result_in(call, host));
    ASSERT_FALSE(refused) << refused.message;
    for (const cuda::Path path : available_paths()) {
      ProcessedRows got(call);
      arrays.rewind();
      const ProcessLogitsRequest request = process_request_in(call, arrays);
      const Error error = cuda::process_logits(request, got.result_in(call, arrays),
                                               arrays.execution(request, path));
      ASSERT_FALSE(error) << error.message;
      arrays.fetch();
      ASSERT_TRUE(expected == got) << "call " << i << " on " << cuda::to_string(path);
    }
  }
}

TEST(CudaLogProbabilities, ArgumentsAreNamed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::uint64_t number = 0;  // number of a report that requests ranks
  const auto call_with = [](std::uint64_t n) { return random_call(n, 4, 50); };
  while (Reports(call_with(number), number).ranks.empty()) ++number;
  const OwnedCall call = call_with(number);
  Reports reports(call, number);
  DeviceArrays arrays;
  const SampleRequest request = request_in(call, arrays);
  const SampleResult valid = reports.sample_result_in(call, arrays);
  const cuda::Execution execution = arrays.execution(request, valid.logprobs, cuda::Path::best);
  std::vector<std::int32_t> host(1000);
  const auto refused = [&](const SampleResult& result, const cuda::Execution& how,
                           const std::string& begins) {
    const Error error = cuda::sample(request, result, how);
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    EXPECT_EQ(error.message.rfind(begins, 0), 0U) << error.message;
  };
  SampleResult result = valid;
  result.logprobs.ranks = {host.data(), valid.tokens.size};
  refused(result, execution, "logprobs.ranks is ");
  result = valid;
  result.logprobs.top_n = kLargestTopN + 1;
  refused(result, execution, "logprobs.top_n is 129");
  cuda::Execution small = execution;
  // the size for a call without reports, which is too small
  small.workspace_bytes = cuda::workspace_bytes(request);
  refused(valid, small, "workspace");
  ASSERT_FALSE(cuda::sample(request, valid, execution));
  const Error error = cuda::log_probabilities(request, {host.data(), valid.tokens.size},
                                              valid.logprobs, {}, execution);
  EXPECT_EQ(error.message.rfind("token_ids is ", 0), 0U) << error.message;
}

TEST(CudaLogProbabilities, OfGivenTokensEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Comparison comparison;
  const std::uint64_t calls = is_reduced() ? 12 : 800;
  for (std::uint64_t i = 0; i < calls && !HasFailure(); ++i) {
    comparison.compare_given(i, call_of(100000 + i));
  }
  EXPECT_GT(comparison.ok, comparison.failed);
  EXPECT_GT(comparison.failed, 0);
}

}  // namespace
}  // namespace fairdraw::suites
