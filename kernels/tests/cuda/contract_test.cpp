// A call on the GPU keeps further promises besides its results: batches of any size, rows far
// apart, an invalid row that affects no other row, and the same bits every time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "harness/inputs/families.h"
#include "tests/cuda/arrays.h"
#include "tests/sample/reduced.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {
namespace {

SampleOutputs on_the_cpu(const OwnedCall& call) {
  SampleOutputs outputs(call, kEverything);
  HostArrays host;
  const Error error = sample(request_in(call, host), result_in(call, outputs, host));
  if (error) throw std::runtime_error(error.message);
  return outputs;
}

SampleOutputs on_the_gpu(const OwnedCall& call, const CallResults& wanted, cuda::Path path) {
  SampleOutputs outputs(call, wanted);
  DeviceArrays arrays;
  const SampleRequest request = request_in(call, arrays);
  const SampleResult result = result_in(call, outputs, arrays);
  const Error error = cuda::sample(request, result, arrays.execution(call.rows, path));
  if (error) throw std::runtime_error(error.message);
  arrays.fetch();
  return outputs;
}

void expect_same(const OwnedCall& call, const SampleOutputs& expected, const SampleOutputs& got,
                 const std::string& what) {
  for (const Difference& difference : differences(call, expected, got, 5)) {
    ADD_FAILURE() << what << ": " << difference.what << "\n  "
                  << describe_row(call, difference.row);
  }
}

// --- Batches ---------------------------------------------------------------------------------

TEST(CudaContract, AnEmptyBatchIsTakenAndWritesNothing) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const cuda::Path path : available_paths()) {
    SampleRequest request;
    request.logits = {nullptr, DType::float32, 0, 50, 50};
    SampleResult result;
    std::vector<std::int32_t> tokens(4, -7);
    DeviceArrays arrays;
    result.tokens = {arrays.out(tokens), 0};
    const Error error = cuda::sample(request, result, {nullptr, nullptr, 0, path});
    EXPECT_FALSE(error) << error.message;
    arrays.fetch();
    EXPECT_EQ(tokens, std::vector<std::int32_t>(4, -7));
  }
}

TEST(CudaContract, OutputsOfNoRowAreOutOfRange) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OwnedCall call;
  call.allocate(DType::float32, 0, 50, 50, 0);
  call.indices = {0, -1, 7};
  call.num_samples = 2;
  const SampleOutputs expected = on_the_cpu(call);
  for (const cuda::Path path : available_paths()) {
    expect_same(call, expected, on_the_gpu(call, kEverything, path), cuda::to_string(path));
  }
  for (const RowStatus status : expected.statuses) {
    EXPECT_EQ(status, RowStatus::index_out_of_range);
  }
}

TEST(CudaContract, LargestBatchMatchesCpu) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const std::uint64_t number : {30U, 31U, 32U}) {  // one per dtype
    const std::int64_t vocab = number == 30 ? 7 : 130;
    if (is_reduced() && vocab > 100) continue;
    const std::int64_t rows = number == 30 && !is_reduced() ? (1 << 22) - 1 : 70'000;
    OwnedCall call = random_call(number, rows, vocab);
    call.indices.clear();
    call.num_samples = 1;
    call.seed.make_array(call.rows);
    call.offset.make_array(call.rows);
    for (std::int64_t i = 0; i < call.rows; ++i) {
      call.seed.set(i) = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15;
    }
    const SampleOutputs expected = on_the_cpu(call);
    for (const cuda::Path path : available_paths()) {
      expect_same(call, expected, on_the_gpu(call, kTokensAndStatuses, path),
                  cuda::to_string(path));
      if (is_reduced()) continue;
      expect_same(call, expected, on_the_gpu(call, kEverything, path), cuda::to_string(path));
    }
  }
}

TEST(CudaContract, ManyOutputsOfOneRowAndManySamplesEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const int outputs = is_reduced() ? 300 : 70000;  // more rows than the second dimension of a CUDA
                                                   // grid allows
  for (const std::uint64_t number : {33U, 34U}) {
    OwnedCall call = random_call(number, 2, 300);
    call.active.clear();
    call.seed = {};
    call.offset = {};
    call.seed.scalar = number;
    for (int i = 0; i < outputs; ++i) call.indices.push_back(i % 2);
    call.indices.erase(call.indices.begin(), call.indices.end() - outputs);
    call.num_samples = 3;
    const SampleOutputs expected = on_the_cpu(call);
    for (const cuda::Path path : available_paths()) {
      expect_same(call, expected, on_the_gpu(call, kEverything, path), cuda::to_string(path));
    }
  }
}

// --- Beyond 2^32 elements ------------------------------------------------------------------------

constexpr std::uint16_t kOne = 0x3f80;  // 1.0 as bfloat16

/// Returns the reason to skip a test, or an empty string if the device has enough free memory.
std::string why_no_room(std::size_t bytes) {
  std::size_t free_bytes = 0;
  std::size_t all = 0;
  require(cudaMemGetInfo(&free_bytes, &all), "cudaMemGetInfo");
  const std::size_t spare = std::size_t{1} << 30;
  if (free_bytes >= bytes + spare) return {};
  return "needs " + std::to_string(bytes >> 20) + " MiB of device memory, " +
         std::to_string(free_bytes >> 20) + " are free";
}

/// Writes a row of zeros, with a 1 at `place`.
void write_row(const DeviceBlock& memory, std::size_t first, std::size_t vocab, std::size_t place) {
  require(cudaMemset(memory.data() + 2 * first, 0, 2 * vocab), "cudaMemset");
  require(cudaMemcpy(memory.data() + 2 * (first + place), &kOne, 2, cudaMemcpyHostToDevice),
          "cudaMemcpy");
}

TEST(CudaContract, RowsFartherThanTwoToTheThirtyTwoValuesApartAreAddressed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "reduced: compute-sanitizer has no room for 12 GiB";
  // Row 3 starts at 6 * 2^31 bytes; rows 1 and 2 are padding, which is neither read nor written.
  constexpr std::size_t kStride = std::size_t{1} << 31;
  constexpr std::size_t kVocab = 64;
  constexpr std::size_t kBytes = 2 * (3 * kStride + kVocab);
  if (const std::string reason = why_no_room(kBytes); !reason.empty()) GTEST_SKIP() << reason;
  const DeviceBlock memory(kBytes);
  write_row(memory, 0, kVocab, 9);
  write_row(memory, 3 * kStride, kVocab, 5);
  const std::vector<std::uint8_t> active = {1, 0, 0, 1};
  for (const cuda::Path path : available_paths()) {
    std::vector<std::int32_t> tokens(4, -7);
    DeviceArrays arrays;
    SampleRequest request;
    request.logits = {memory.data(), DType::bfloat16, 4, kVocab, kStride};
    request.active = {arrays.in(active), 4};
    request.temperature = 0.0F;
    SampleResult result;
    result.tokens = {arrays.out(tokens), 4};
    const Error error = cuda::sample(request, result, arrays.execution(4, path));
    ASSERT_FALSE(error) << error.message;
    arrays.fetch();
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{9, -1, -1, 5})) << cuda::to_string(path);
  }
}

TEST(CudaContract, MatricesOfMoreThanTwoToTheThirtyTwoValuesAreReadAndWritten) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "reduced: compute-sanitizer has no room for 26 GB";
  constexpr std::size_t kRows = 65536;
  constexpr std::size_t kVocab = 65600;  // times rows: 2^32 + 4194304
  constexpr std::size_t kValues = kRows * kVocab;
  static_assert(kValues > std::size_t{1} << 32);
  if (const std::string reason = why_no_room(6 * kValues); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const DeviceBlock logits(2 * kValues);
  const DeviceBlock probs(4 * kValues);
  const std::vector<std::size_t> rows = {0, 32767, 65472, 65473, 65535};
  for (const cuda::Path path : available_paths()) {
    require(cudaMemset(logits.data(), 0, 2 * kValues), "cudaMemset");  // greedy: token 0
    for (const std::size_t row : rows) write_row(logits, row * kVocab, kVocab, row % kVocab);
    std::vector<std::int32_t> tokens(kRows, -7);
    DeviceArrays arrays;
    SampleRequest request;
    request.logits = {logits.data(), DType::bfloat16, kRows, kVocab, kVocab};
    request.temperature = 0.0F;
    SampleResult result;
    result.tokens = {arrays.out(tokens), kRows};
    result.probs = {reinterpret_cast<float*>(probs.data()), kRows, kVocab};
    const cuda::Execution execution = arrays.execution(kRows, path);
    const Error error = cuda::sample(request, result, execution);
    ASSERT_FALSE(error) << error.message;
    const Error masked =
        cuda::top_k_mask_logits(request.logits, 1, logits.data(), kVocab, {}, execution);
    ASSERT_FALSE(masked) << masked.message;
    arrays.fetch();
    std::vector<std::int32_t> expected(kRows, 0);
    for (const std::size_t row : rows) expected[row] = static_cast<std::int32_t>(row % kVocab);
    EXPECT_EQ(tokens, expected) << cuda::to_string(path);
    // Both matrices have one possible token per row: the row of probabilities has a single 1, the
    // row of logits a single 1 among -inf.
    std::vector<float> row_of_probs(kVocab);
    std::vector<std::uint16_t> row_of_logits(kVocab);
    for (const std::size_t row : rows) {
      const std::size_t place = row % kVocab;
      std::vector<float> one_hot(kVocab, 0.0F);
      std::vector<std::uint16_t> one_left(kVocab, 0xff80);  // -inf
      one_hot[place] = 1.0F;
      one_left[place] = kOne;
      require(cudaMemcpy(row_of_probs.data(), probs.data() + 4 * row * kVocab, 4 * kVocab,
                         cudaMemcpyDeviceToHost),
              "cudaMemcpy");
      require(cudaMemcpy(row_of_logits.data(), logits.data() + 2 * row * kVocab, 2 * kVocab,
                         cudaMemcpyDeviceToHost),
              "cudaMemcpy");
      EXPECT_TRUE(row_of_probs == one_hot) << "row " << row << " on " << cuda::to_string(path);
      EXPECT_TRUE(row_of_logits == one_left) << "row " << row << " on " << cuda::to_string(path);
    }
  }
}

// --- One row and the others
// ------------------------------------------------------------------------

/// Returns a call of valid rows that all have a token to draw, each with its own parameters.
OwnedCall good_call(std::int64_t vocab) {
  constexpr std::int64_t kRows = 7;
  OwnedCall call;
  call.allocate(DType::float32, kRows, vocab, vocab + 3, 4);
  call.make_parameter_arrays(kRows);
  call.tie_rule.make_array(kRows);
  call.filter_order.make_array(kRows);
  call.seed.make_array(kRows);
  call.offset.make_array(kRows);
  call.active.assign(kRows, 1);
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  for (std::int64_t row = 0; row < kRows; ++row) {
    harness::generate_row(harness::Family::peaked, 41, static_cast<std::uint64_t>(row), logits);
    call.set_row(row, logits.data());
    const auto number = static_cast<std::int32_t>(row);
    call.temperature.set(row) = row == 2 ? 0.0F : 0.5F + 0.25F * static_cast<float>(row);
    call.top_k.set(row) = row % 3 == 0 ? 0 : 20 * number;
    call.top_p.set(row) = row % 2 == 0 ? 1.0F : 0.9F;
    call.min_p.set(row) = row % 4 == 0 ? 0.05F : 0.0F;
    call.tie_rule.set(row) = row % 2 == 0 ? TieRule::lowest_id : TieRule::keep_all;
    call.filter_order.set(row) = row < 4 ? FilterOrder::joint : FilterOrder::top_k_first;
    call.seed.set(row) = static_cast<std::uint64_t>(1000 + row);
  }
  return call;
}

struct Mutated {
  RowStatus status;
  std::function<void(OwnedCall&, std::int64_t)> mutation;
};

/// Returns calls that together have every kind of failure of a single row.
std::vector<Mutated> all_mutated() {
  static constexpr float kInf = std::numeric_limits<float>::infinity();
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto set_last = [](OwnedCall& call, std::int64_t row, float value) {
    const auto at = static_cast<std::size_t>(row * call.row_stride + call.vocab - 1) * 4;
    std::memcpy(call.values.data() + call.shift + at, &value, 4);
  };
  return {
      {RowStatus::nan_input, [=](OwnedCall& call, std::int64_t row) { set_last(call, row, kNan); }},
      {RowStatus::infinite_input,
       [=](OwnedCall& call, std::int64_t row) { set_last(call, row, kInf); }},
      {RowStatus::no_allowed_token,
       [](OwnedCall& call, std::int64_t row) {
         const std::vector<float> nothing(static_cast<std::size_t>(call.vocab), -kInf);
         call.set_row(row, nothing.data());
       }},
      {RowStatus::invalid_temperature,
       [](OwnedCall& call, std::int64_t row) { call.temperature.set(row) = -1.0F; }},
      {RowStatus::invalid_top_k,
       [](OwnedCall& call, std::int64_t row) { call.top_k.set(row) = -2; }},
      {RowStatus::invalid_top_p,
       [](OwnedCall& call, std::int64_t row) { call.top_p.set(row) = kNan; }},
      {RowStatus::invalid_min_p,
       [](OwnedCall& call, std::int64_t row) { call.min_p.set(row) = 1.5F; }},
      {RowStatus::invalid_tie_rule,
       [](OwnedCall& call, std::int64_t row) { call.tie_rule.set(row) = static_cast<TieRule>(2); }},
      {RowStatus::invalid_filter_order,
       [](OwnedCall& call, std::int64_t row) {
         call.filter_order.set(row) = static_cast<FilterOrder>(~0U);
       }},
      {RowStatus::inactive,
       [](OwnedCall& call, std::int64_t row) { call.active[static_cast<std::size_t>(row)] = 0; }},
  };
}

TEST(CudaContract, OneBadRowFailsAloneWithItsOwnStatus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const std::int64_t vocab : {1000, 40000}) {
    if (is_reduced() && vocab > 1000) continue;
    const OwnedCall good = good_call(vocab);
    const SampleOutputs before = on_the_cpu(good);
    for (const RowStatus status : before.statuses) ASSERT_EQ(status, RowStatus::ok);
    for (const Mutated& mutated : all_mutated()) {
      for (const std::size_t bad : {0U, 3U, 6U}) {
        OwnedCall call = good;
        mutated.mutation(call, static_cast<std::int64_t>(bad));
        for (const cuda::Path path : available_paths()) {
          for (const CallResults& wanted : {kTokensAndStatuses, kEverything}) {
            const SampleOutputs got = on_the_gpu(call, wanted, path);
            EXPECT_EQ(got.statuses[bad], mutated.status) << cuda::to_string(path);
            EXPECT_EQ(got.tokens[bad], -1) << to_string(mutated.status);
            expect_same(call, on_the_cpu(call), got, to_string(mutated.status));
            // The other rows have the same results as in a call without the failing row.
            for (std::size_t row = 0; row < before.tokens.size(); ++row) {
              if (row == bad) continue;
              EXPECT_EQ(got.tokens[row], before.tokens[row]) << to_string(mutated.status);
              EXPECT_EQ(got.statuses[row], RowStatus::ok) << to_string(mutated.status);
            }
          }
        }
      }
    }
  }
}

TEST(CudaContract, ARowAloneAndAnywhereInABatchGivesTheSameToken) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const OwnedCall call = good_call(5000);
  for (const cuda::Path path : available_paths()) {
    const SampleOutputs together = on_the_gpu(call, kTokensAndStatuses, path);
    for (std::int64_t row = 0; row < call.rows; ++row) {
      OwnedCall alone = call;
      alone.allocate(call.dtype, 1, call.vocab, call.vocab, 0);
      std::memcpy(
          alone.values.data(),
          call.values.data() + call.shift + static_cast<std::size_t>(4 * row * call.row_stride),
          alone.values.size());
      const auto keep = [row](auto& parameter) {
        parameter.values = {parameter.values[static_cast<std::size_t>(row)]};
      };
      keep(alone.temperature);
      keep(alone.top_k);
      keep(alone.top_p);
      keep(alone.min_p);
      keep(alone.tie_rule);
      keep(alone.filter_order);
      keep(alone.seed);
      keep(alone.offset);
      alone.active.clear();
      EXPECT_EQ(on_the_gpu(alone, kTokensAndStatuses, path).tokens[0],
                together.tokens[static_cast<std::size_t>(row)])
          << "row " << row << " on " << cuda::to_string(path);
    }
  }
}

TEST(CudaContract, AHundredCallsGiveTheSameBits) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OwnedCall call = random_call(51, 60, is_reduced() ? 700 : 20001);
  const int calls = is_reduced() ? 5 : 100;
  const auto same_floats = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  for (const cuda::Path path : available_paths()) {
    const SampleOutputs first = on_the_gpu(call, kEverything, path);
    for (int i = 1; i < calls; ++i) {
      const SampleOutputs again = on_the_gpu(call, kEverything, path);
      ASSERT_EQ(again.tokens, first.tokens) << "call " << i << " on " << cuda::to_string(path);
      ASSERT_EQ(again.statuses, first.statuses);
      ASSERT_EQ(again.support_size, first.support_size);
      ASSERT_EQ(again.mask, first.mask);
      ASSERT_TRUE(same_floats(again.probs, first.probs));
      // Repeated calls on the GPU give equal bits, although the CPU's values may differ in the last
      // bit.
      ASSERT_TRUE(same_floats(again.logprob, first.logprob));
      ASSERT_TRUE(same_floats(again.logprob_filtered, first.logprob_filtered));
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
