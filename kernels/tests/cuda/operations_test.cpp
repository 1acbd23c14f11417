// Every operation of fairdraw/sampling.h on the GPU is compared with the CPU path, byte for byte.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "tests/cuda/arrays.h"
#include "tests/operations/operation_calls.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

/// Returns a description of the first element in which two arrays differ.
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
    for (std::uint64_t number = first + 50000; number < first + 50003; ++number) {  // one per dtype
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

}  // namespace
}  // namespace fairdraw::suites
