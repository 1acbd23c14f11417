// `sample` on the GPU is compared with the CPU path, which the integer model judges: every result
// of every kind of call, bit for bit, on every path through the kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "tests/cuda/arrays.h"
#include "tests/sample/reduced.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {
namespace {

constexpr std::size_t kMaxReported = 20;

/// Numbers of row statuses that a test saw; a status that never occurs is not compared.
using StatusCounts = std::array<std::int64_t, kRowStatuses>;

/// Returns sets of requested results; each set uses another path through the kernels.
std::vector<CallResults> wanted_sets(std::uint64_t number) {
  std::vector<CallResults> sets = {kEverything, kTokensAndStatuses};
  // scrambles the number, and takes five bits that choose the results
  const std::uint64_t bits = number * 0x9e3779b97f4a7c15 >> 59;
  sets.push_back(
      {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0});
  return sets;
}

/// Runs a call on the CPU and on the GPU, and reports the differences.
void compare_call(std::uint64_t number, const OwnedCall& call, DeviceArrays& arrays,
                  StatusCounts& statuses) {
  SampleOutputs expected(call, kEverything);
  HostArrays host;
  const Error refused = sample(request_in(call, host), result_in(call, expected, host));
  ASSERT_FALSE(refused) << refused.message;
  for (const RowStatus status : expected.statuses) ++statuses.at(static_cast<std::size_t>(status));
  for (const cuda::Path path : available_paths()) {
    for (const CallResults& wanted : wanted_sets(number)) {
      SampleOutputs got(call, wanted);
      arrays.rewind();
      const SampleRequest request = request_in(call, arrays);
      const SampleResult result = result_in(call, got, arrays);
      const Error error = cuda::sample(request, result, arrays.execution(request, path));
      ASSERT_FALSE(error) << "call " << number << ": " << error.message;
      arrays.fetch();
      for (const Difference& difference : differences(call, expected, got, kMaxReported)) {
        ADD_FAILURE() << "call " << number << " on " << cuda::to_string(path) << ": "
                      << difference.what << "\n  " << describe_row(call, difference.row);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

void expect_mostly_ok(const StatusCounts& statuses) {
  std::int64_t all = 0;
  for (const std::int64_t count : statuses) all += count;
  EXPECT_GT(statuses[0], all / 2) << "of " << all << " outputs: the comparison says little";
}

TEST(CudaDifferential, SmallVocabulariesMatchCpu) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  StatusCounts statuses{};
  const std::uint64_t calls = is_reduced() ? 6 : 600;
  for (std::uint64_t i = 0; i < calls && !HasFailure(); ++i) {
    std::mt19937_64 random(~i);
    const bool large = i % 2 == 0;
    const auto vocab =
        static_cast<std::int64_t>(large ? 128 + random() % 1920 : 1 + random() % 127);
    const auto rows = static_cast<std::int64_t>(1 + random() % (is_reduced() ? 40 : 400));
    OwnedCall call = random_call(i, rows, vocab);
    if (i % 3 == 0) harness::make_rules_of_rows(i, i % 2 == 1, call);
    compare_call(i, call, arrays, statuses);
  }
  expect_mostly_ok(statuses);
  if (is_reduced()) return;
  for (std::size_t status = 0; status < statuses.size(); ++status) {
    const auto name = static_cast<RowStatus>(status);
    // Logits have no status of a negative probability, which only operations on probabilities
    // return. Other tests cover invalid histories, biases and drafts.
    const bool of_rules =
        name == RowStatus::invalid_tie_rule || name == RowStatus::invalid_filter_order;
    if (name == RowStatus::negative_probability) continue;
    if (name > RowStatus::index_out_of_range && !of_rules) continue;
    EXPECT_GT(statuses[status], 0) << to_string(name) << " never occurred";
  }
}

/// Returns vocabulary sizes around the width of a warp, a vector of any dtype, a step of a warp or
/// block, and the capacity of a block or a cluster of blocks.
std::vector<std::int64_t> edge_sizes() {
  std::set<std::int64_t> sizes = {1, 2, 3, 5, 7, 8, 32000, 50304, 128256, 151936};
  for (std::int64_t power = 16; power <= 8192; power *= 2) {
    sizes.insert({power - 1, power, power + 1});
  }
  for (const std::int64_t multiple : {1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 48, 63, 64}) {
    const std::int64_t size = 16384 * multiple;
    sizes.insert({size - 1, size, size + 1});
  }
  sizes.erase(kMaxVocab + 1);
  return {sizes.begin(), sizes.end()};
}

TEST(CudaDifferential, SizesAroundEveryGranularityMatchCpu) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  StatusCounts statuses{};
  std::uint64_t number = 5000000;
  std::uint64_t sizes_met = 0;
  for (const std::int64_t vocab : edge_sizes()) {
    ++sizes_met;
    if (is_reduced() && (sizes_met % 10 != 0 || vocab > 40000)) continue;
    const int calls = is_reduced() ? 1 : 6;  // each dtype twice
    for (int i = 0; i < calls; ++i) {
      ++number;
      // The number of rows determines how many thread blocks share a row. The batch is limited to
      // few vocabulary entries in total, to save time.
      const std::int64_t most = is_reduced() ? 5 : 6000000 / vocab;
      const std::array<std::int64_t, 6> batches = {1, 70, 5, 300, 2, 20};
      const std::int64_t rows =
          std::min(most, batches[(sizes_met + static_cast<std::uint64_t>(i)) % batches.size()]);
      compare_call(number, random_call(number, rows, vocab), arrays, statuses);
      if (HasFailure()) return;
    }
  }
  expect_mostly_ok(statuses);
}

TEST(CudaDifferential, ProcessedRowsMatchCpu) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  StatusCounts statuses{};
  const std::vector<std::int64_t> large = {32000, 50304, 128256, 262144, kMaxVocab};
  const std::uint64_t calls = is_reduced() ? 8 : 400;
  for (std::uint64_t i = 0; i < calls && !HasFailure(); ++i) {
    std::mt19937_64 random(i * 0x9e3779b97f4a7c15);
    const bool wide = i % 8 == 7 && !is_reduced();
    const auto vocab = wide ? large[random() % large.size()]
                            : static_cast<std::int64_t>(1 + random() % (i % 2 == 0 ? 100 : 5000));
    const std::int64_t most = is_reduced() ? 20 : std::min<std::int64_t>(200, 4000000 / vocab);
    const auto rows = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(most));
    OwnedCall call = random_call(8000000 + i, rows, vocab);
    call.processing = harness::random_processing(i, call.rows, call.vocab);
    compare_call(8000000 + i, call, arrays, statuses);
  }
  if (is_reduced()) return;
  expect_mostly_ok(statuses);
  for (const RowStatus status :
       {RowStatus::invalid_history, RowStatus::invalid_penalty, RowStatus::invalid_logit_bias,
        RowStatus::invalid_min_tokens, RowStatus::invalid_bad_words, RowStatus::invalid_allowed_ids,
        RowStatus::processing_overflow, RowStatus::no_allowed_token}) {
    EXPECT_GT(statuses[static_cast<std::size_t>(status)], 0) << to_string(status);
  }
}

TEST(CudaDifferential, LargestVocabularyMatchesCpu) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  StatusCounts statuses{};
  const std::uint64_t calls = is_reduced() ? 1 : 12;
  for (std::uint64_t i = 0; i < calls && !HasFailure(); ++i) {
    const std::uint64_t number = 6000000 + i;
    compare_call(number, random_call(number, is_reduced() ? 2 : 16, kMaxVocab), arrays, statuses);
  }
  if (!is_reduced())
    expect_mostly_ok(statuses);  // In reduced tests, both rows of a call may be
                                 // invalid.
}

TEST(CudaDifferential, StrideAndAddressChangeNothingInAnyDtype) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  StatusCounts statuses{};
  std::vector<std::int64_t> vocabs = {1003, 33001};
  if (is_reduced()) vocabs.pop_back();
  for (const std::int64_t vocab : vocabs) {
    for (std::uint64_t number = 7000000; number < 7000003; ++number) {  // one per dtype
      const OwnedCall base = random_call(number, 9, vocab);
      const std::size_t size = base.dtype == DType::float32 ? 4 : 2;
      for (std::size_t shift = 0; shift < (is_reduced() ? 4U : 33U); ++shift) {
        OwnedCall call = base;
        call.allocate(base.dtype, base.rows, vocab, vocab + static_cast<std::int64_t>(shift % 5),
                      shift);
        for (std::int64_t row = 0; row < base.rows; ++row) {
          const auto stride = [size](const OwnedCall& of) {
            return static_cast<std::ptrdiff_t>(of.row_stride) * static_cast<std::ptrdiff_t>(size);
          };
          const auto from =
              base.values.begin() + static_cast<std::ptrdiff_t>(base.shift) + row * stride(base);
          std::copy(from, from + vocab * static_cast<std::ptrdiff_t>(size),
                    call.values.begin() + static_cast<std::ptrdiff_t>(shift) + row * stride(call));
        }
        compare_call(number, call, arrays, statuses);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
