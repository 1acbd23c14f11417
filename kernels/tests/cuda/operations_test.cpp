// Every operation of fairdraw/sampling.h on the GPU against the CPU path, byte for byte; and the
// distribution of speculative sampling on the GPU by its own draws.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "common/philox.h"
#include "harness/statistics/statistics.h"
#include "reference/integer_model.h"
#include "tests/cuda/arrays.h"
#include "tests/operations/operation_calls.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/speculative_rows.h"

namespace fairdraw::suites {
namespace {

/// The first byte that differs, for a report.
template <class T>
std::string first_difference(const char* name, const std::vector<T>& expected,
                             const std::vector<T>& got) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&expected[i], &got[i], sizeof(T)) == 0) continue;
    return std::string(name) + " " + std::to_string(i) + " of " + std::to_string(expected.size()) +
           ": " + std::to_string(static_cast<double>(got[i])) + " instead of " +
           std::to_string(static_cast<double>(expected[i])) + "\n";
  }
  return {};
}

std::vector<std::int32_t> numbers_of(const std::vector<RowStatus>& statuses) {
  std::vector<std::int32_t> numbers;
  for (const RowStatus status : statuses) numbers.push_back(static_cast<std::int32_t>(status));
  return numbers;
}

void compare_operation(Operation operation, std::uint64_t number, std::int64_t rows,
                       std::int64_t vocab, DeviceArrays& arrays,
                       std::array<std::int64_t, 11>& statuses) {
  const OwnedCall call = random_operation_call(operation, number, rows, vocab);
  OperationOutputs expected(operation, call);
  HostArrays host;
  const Error refused = run_operation(operation, call, expected, host, Execution{});
  ASSERT_FALSE(refused) << to_string(operation) << ": " << refused.message;
  for (const RowStatus status : expected.statuses) ++statuses.at(static_cast<std::size_t>(status));
  for (const cuda::Path path : available_paths()) {
    OperationOutputs got(operation, call);
    arrays.rewind();
    const Error error =
        run_operation(operation, call, got, arrays, arrays.execution(call.rows, path));
    ASSERT_FALSE(error) << to_string(operation) << ": " << error.message;
    arrays.fetch();
    ASSERT_TRUE(got == expected) << to_string(operation) << " on " << cuda::to_string(path)
                                 << ", call " << number << ": " << describe_row(call, -1) << "\n"
                                 << first_difference("status", numbers_of(expected.statuses),
                                                     numbers_of(got.statuses))
                                 << first_difference("token", expected.tokens, got.tokens)
                                 << first_difference("probability", expected.matrix, got.matrix)
                                 << first_difference("byte", expected.masked, got.masked);
  }
}

class CudaOperation : public ::testing::TestWithParam<int> {};

TEST_P(CudaOperation, MatchesCpuToTheBit) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const auto operation = static_cast<Operation>(GetParam());
  DeviceArrays arrays;
  std::array<std::int64_t, 11> statuses{};
  const std::uint64_t calls = is_reduced() ? 6 : 300;
  const std::uint64_t first = static_cast<std::uint64_t>(GetParam()) * 100000;
  for (std::uint64_t number = first; number < first + calls; ++number) {
    std::mt19937_64 random(~number);
    const auto vocab =
        static_cast<std::int64_t>(number % 2 == 0 ? 128 + random() % 1920 : 1 + random() % 127);
    const auto rows = static_cast<std::int64_t>(1 + random() % (is_reduced() ? 10 : 120));
    compare_operation(operation, number, rows, vocab, arrays, statuses);
    if (HasFatalFailure()) return;
  }
  std::vector<std::int64_t> wide = {4095, 4097, 16385, 32000, 50304, 65537, 128256, 262147};
  if (is_reduced()) wide = {4097};
  for (const std::int64_t vocab : wide) {
    for (std::uint64_t number = first + 50000; number < first + 50003; ++number) {  // one a dtype
      compare_operation(operation, number, is_reduced() ? 3 : 12, vocab, arrays, statuses);
      if (HasFatalFailure()) return;
    }
  }
  if (!is_reduced()) compare_operation(operation, first + 60000, 3, kMaxVocab, arrays, statuses);
  std::int64_t all = 0;
  for (const std::int64_t count : statuses) all += count;
  EXPECT_GT(statuses[0], all / 2) << "of " << all << " outputs: the comparison says little";
}

std::string operation_name(const ::testing::TestParamInfo<int>& parameter) {
  std::string name = to_string(static_cast<Operation>(parameter.param));
  for (char& c : name) {
    if (c == ' ') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, CudaOperation, ::testing::Range(0, kOperations), operation_name);

TEST(CudaOperations, ChainSpeculativeSamplingMatchesCpuToTheBit) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  const std::uint64_t chains = is_reduced() ? 12 : 600;
  std::int64_t emitted_drafts = 0;
  std::int64_t requests = 0;
  std::int64_t ok = 0;
  for (std::uint64_t number = 0; number < chains; ++number) {
    std::mt19937_64 random(~number);
    std::int64_t vocab =
        static_cast<std::int64_t>(random() % 4 == 0 ? 128 + random() % 3000 : 1 + random() % 40);
    if (number % 100 == 99) vocab = 128256;
    const ChainCall call = random_chain_call(number, vocab);
    ChainOutputs expected(call);
    HostArrays host;
    const Error refused = run_chain(call, expected, host, Execution{});
    ASSERT_FALSE(refused) << refused.message;
    requests += call.batch;
    for (const RowStatus status : expected.statuses) ok += status == RowStatus::ok ? 1 : 0;
    for (const std::int32_t emitted : expected.emitted) emitted_drafts += emitted;
    for (const cuda::Path path : available_paths()) {
      for (const bool optional_results : {true, false}) {
        ChainOutputs got(call, optional_results);
        arrays.rewind();
        const std::int64_t rows = call.draft.rows + call.target.rows;
        const Error error = run_chain(call, got, arrays, arrays.execution(rows, path));
        ASSERT_FALSE(error) << error.message;
        arrays.fetch();
        const auto where = [&] {
          return "chains " + std::to_string(number) + " of " +
                 std::to_string(call.num_draft_tokens) + " tokens, vocab " + std::to_string(vocab) +
                 ", target " + to_string(call.target.dtype) + ", draft " +
                 to_string(call.draft.dtype) + " on " + cuda::to_string(path);
        };
        ASSERT_EQ(got.tokens, expected.tokens) << where();
        if (!optional_results) continue;
        ASSERT_EQ(got.statuses, expected.statuses) << where();
        ASSERT_EQ(got.accepted, expected.accepted) << where();
        ASSERT_EQ(got.emitted, expected.emitted) << where();
      }
    }
  }
  // Both outcomes must be common, or the comparison says little.
  EXPECT_GT(ok, requests / 2);
  EXPECT_GT(emitted_drafts, requests / 8);
}

// Totals are 4 to 8 times 2^16, their bounds V - 1 = 2^17 apart.
TEST(CudaOperations, ChainsThatBoundsLeaveOpenMatchCpuToTheBit) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  std::array<int, 2> tests{};  // positions that pass their test, and that do not
  const std::uint64_t calls = is_reduced() ? 2 : 40;
  for (std::uint64_t number = 0; number < calls; ++number) {
    const ChainCall call = open_chain_call(number, 1 + (1 << 17));
    ChainOutputs expected(call);
    HostArrays host;
    const Error refused = run_chain(call, expected, host, Execution{});
    ASSERT_FALSE(refused) << refused.message;
    for (const std::int32_t accepted : expected.accepted) {
      tests[0] += accepted;
      tests[1] += static_cast<int>(call.num_draft_tokens) - accepted;
    }
    for (const cuda::Path path : available_paths()) {
      ChainOutputs got(call);
      arrays.rewind();
      const std::int64_t rows = call.draft.rows + call.target.rows;
      const Error error = run_chain(call, got, arrays, arrays.execution(rows, path));
      ASSERT_FALSE(error) << error.message;
      arrays.fetch();
      ASSERT_EQ(got.tokens, expected.tokens) << "chains " << number;
      ASSERT_EQ(got.statuses, expected.statuses) << "chains " << number;
      ASSERT_EQ(got.accepted, expected.accepted) << "chains " << number;
      ASSERT_EQ(got.emitted, expected.emitted) << "chains " << number;
    }
  }
  if (is_reduced()) return;
  for (const int count : tests) EXPECT_GT(count, 10);
}

// --- The distribution of chains -----------------------------------------------------------------

std::vector<double> probabilities_of(const reference::IntegerRow& row) {
  std::vector<double> distribution;
  for (const std::uint64_t weight : row.speculation_weight) {
    distribution.push_back(static_cast<double>(weight) /
                           static_cast<double>(row.speculation_total()));
  }
  return distribution;
}

/// Chains with seeds 0, 1, 2, ..., each drafted with its own seed at the offsets of its positions,
/// as an engine does.
ChainCall chains_of(const Rows& draft, std::int64_t batch) {
  const reference::IntegerRow first = distribution_of(draft, 0);
  const reference::IntegerRow second = distribution_of(draft, 1);
  ChainCall call;
  call.batch = batch;
  call.num_draft_tokens = kDrafts;
  call.draft.allocate(DType::float32, batch * kDrafts, kVocab, kVocab, 0);
  call.target.allocate(DType::float32, batch * (kDrafts + 1), kVocab, kVocab, 0);
  call.target.seed.make_array(batch);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < kDrafts; ++i) {
      call.draft.set_row(b * kDrafts + i, draft.data() + i * kVocab);
    }
    for (std::int64_t i = 0; i <= kDrafts; ++i) {
      call.target.set_row(b * (kDrafts + 1) + i, kTarget.data() + i * kVocab);
    }
    const auto seed = static_cast<std::uint64_t>(b);
    call.target.seed.set(b) = seed;
    call.draft_tokens.push_back(first.token_for(random_word(seed, 0, Purpose::draft, 0)));
    call.draft_tokens.push_back(second.token_for(random_word(seed, 1, Purpose::draft, 0)));
  }
  return call;
}

TEST(CudaOperations, FirstAndSecondTokensOfChainsFollowTheTargetWhateverTheDraft) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  // Target and draft rows together stay within the rows of a call.
  const std::int64_t chains = is_reduced() ? 2000 : 65536 / (2 * kDrafts + 1);
  // 1e-9 over four drafts, two statistics each, on every path.
  const std::vector<cuda::Path> paths = available_paths();
  const double level = 1e-9 / (4 * 2 * static_cast<double>(paths.size()));
  const std::vector<double> first_distribution = probabilities_of(distribution_of(kTarget, 0));
  const std::vector<double> second_distribution = probabilities_of(distribution_of(kTarget, 1));
  DeviceArrays arrays;
  for (const Rows& draft : kDraftRows) {
    const ChainCall call = chains_of(draft, chains);
    for (const cuda::Path path : paths) {
      ChainOutputs got(call);
      arrays.rewind();
      const Error error =
          run_chain(call, got, arrays, arrays.execution(call.draft.rows + call.target.rows, path));
      ASSERT_FALSE(error) << error.message;
      arrays.fetch();
      std::vector<std::uint64_t> first_seen(kVocab);
      std::vector<std::uint64_t> second_seen(kVocab);
      std::uint64_t seconds = 0;
      for (std::int64_t b = 0; b < chains; ++b) {
        const std::int32_t* out = got.tokens.data() + b * (kDrafts + 1);
        ++first_seen.at(static_cast<std::size_t>(out[0]));
        if (out[1] < 0) continue;  // the chain ended at the first position
        ++seconds;
        ++second_seen.at(static_cast<std::size_t>(out[1]));
      }
      EXPECT_EQ(first_seen[4], 0U);  // of probability 0 in the target: no cell
      EXPECT_GE(statistics::goodness_of_fit({first_seen.data(), 4}, {first_distribution.data(), 4})
                    .g_p_bound,
                level);
      if (seconds == 0) continue;
      // The second token given that there is one: the target's second row, whatever the first was.
      EXPECT_GE(statistics::goodness_of_fit(second_seen, second_distribution).g_p_bound, level)
          << "of " << seconds << " second tokens";
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
