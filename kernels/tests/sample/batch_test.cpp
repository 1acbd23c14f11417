// A token is a pure function of row, parameters, seed and offset: whatever else is in the batch,
// wherever the row lies in memory, however many threads run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/philox.h"
#include "fairdraw/sample.h"
#include "harness/inputs/families.h"
#include "tests/sample/random_rows.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kRows = 33;
constexpr std::int64_t kVocab = 1003;  // no multiple of a vector

/// Rows of one width with parameters of their own.
struct BatchOfRows {
  std::vector<RandomRow> rows;
  std::vector<float> temperature, top_p, min_p;
  std::vector<std::int32_t> top_k;
  std::vector<std::uint64_t> seed, offset;

  BatchOfRows() {
    for (std::int64_t i = 0; i < kRows; ++i) {
      rows.push_back(random_row_of(7000000 + static_cast<std::uint64_t>(i), kVocab));
      const RandomRow& row = rows.back();
      temperature.push_back(row.parameters.temperature);
      top_p.push_back(row.parameters.top_p);
      min_p.push_back(row.parameters.min_p);
      top_k.push_back(row.parameters.top_k);
      seed.push_back(row.seed);
      offset.push_back(row.offset);
    }
  }
};

/// Bytes of the rows in a dtype, `stride` values apart, starting `shift` bytes into the buffer.
struct Memory {
  std::vector<std::uint8_t> bytes;
  const void* data = nullptr;

  Memory(const BatchOfRows& batch, DType dtype, std::int64_t stride, std::size_t shift) {
    const std::size_t size = dtype == DType::float32 ? 4 : 2;
    // Bytes between rows are NaN patterns: reading them would fail a row.
    bytes.assign(shift + static_cast<std::size_t>(kRows * stride) * size + 64, 0xff);
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      for (std::size_t t = 0; t < batch.rows[i].logits.size(); ++t) {
        const float x = batch.rows[i].logits[t];
        std::uint8_t* at = bytes.data() + shift + (i * static_cast<std::size_t>(stride) + t) * size;
        const std::uint16_t half =
            dtype == DType::float16 ? harness::to_float16(x) : harness::to_bfloat16(x);
        dtype == DType::float32 ? std::memcpy(at, &x, 4) : std::memcpy(at, &half, 2);
      }
    }
    data = bytes.data() + shift;
  }
};

struct Outcome {
  std::vector<std::int32_t> tokens;
  std::vector<RowStatus> statuses;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const BatchOfRows& batch, DType dtype, std::int64_t stride, std::size_t shift,
            const Execution& execution) {
  const Memory memory(batch, dtype, stride, shift);
  SampleRequest request;
  request.logits = {memory.data, dtype, kRows, kVocab, stride};
  request.temperature = {batch.temperature.data(), kRows};
  request.top_k = {batch.top_k.data(), kRows};
  request.top_p = {batch.top_p.data(), kRows};
  request.min_p = {batch.min_p.data(), kRows};
  request.seed = {batch.seed.data(), kRows};
  request.offset = {batch.offset.data(), kRows};
  Outcome outcome;
  outcome.tokens.assign(kRows, -7);
  outcome.statuses.assign(kRows, RowStatus::inactive);
  SampleResult result;
  result.tokens = {outcome.tokens.data(), kRows};
  result.statuses = {outcome.statuses.data(), kRows};
  const Error error = sample(request, result, execution);
  EXPECT_FALSE(error) << error.message;
  return outcome;
}

TEST(Batch, StrideAlignmentAndThreadsChangeNothingInAnyDtype) {
  const BatchOfRows batch;
  for (const CpuTarget target : available_targets()) {
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
      const Outcome expected = run(batch, dtype, kVocab, 0, {target, 1});
      for (const std::size_t shift : {1U, 2U, 3U, 4U, 8U, 20U, 33U, 63U}) {
        EXPECT_EQ(run(batch, dtype, kVocab, shift, {target, 1}), expected)
            << to_string(target) << " " << to_string(dtype) << " shift " << shift;
      }
      for (const std::int64_t stride : {kVocab + 1, kVocab + 21, 2 * kVocab}) {
        EXPECT_EQ(run(batch, dtype, stride, 0, {target, 1}), expected) << "stride " << stride;
      }
      for (const int threads : {0, 2, 3, 8, 64}) {
        EXPECT_EQ(run(batch, dtype, kVocab, 0, {target, threads}), expected)
            << "threads " << threads;
      }
    }
  }
}

TEST(Batch, ARowAloneThroughIndicesAndWithManySamplesIsTheSame) {
  const BatchOfRows batch;
  const Outcome expected = run(batch, DType::float32, kVocab, 0, {});
  const Memory memory(batch, DType::float32, kVocab, 0);
  // Output i samples row (7 i) mod 33 with that row's seed; every row is met, in another order.
  std::vector<std::int32_t> indices;
  std::vector<std::uint64_t> seed;
  std::vector<std::uint64_t> offset;
  for (std::int32_t i = 0; i < kRows; ++i) {
    indices.push_back((7 * i) % static_cast<std::int32_t>(kRows));
    seed.push_back(batch.seed[static_cast<std::size_t>(indices.back())]);
    offset.push_back(batch.offset[static_cast<std::size_t>(indices.back())]);
  }
  indices.push_back(-1);
  indices.push_back(static_cast<std::int32_t>(kRows));
  seed.resize(indices.size());
  offset.resize(indices.size());
  constexpr std::int64_t kSamples = 3;
  const auto outputs = static_cast<std::int64_t>(indices.size());
  SampleRequest request;
  request.logits = {memory.data, DType::float32, kRows, kVocab, kVocab};
  request.temperature = {batch.temperature.data(), kRows};
  request.top_k = {batch.top_k.data(), kRows};
  request.top_p = {batch.top_p.data(), kRows};
  request.min_p = {batch.min_p.data(), kRows};
  request.seed = {seed.data(), outputs};
  request.offset = {offset.data(), outputs};
  request.indices = {indices.data(), outputs};
  request.num_samples = kSamples;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(outputs * kSamples), -7);
  std::vector<RowStatus> statuses(indices.size(), RowStatus::inactive);
  SampleResult result;
  result.tokens = {tokens.data(), outputs * kSamples};
  result.statuses = {statuses.data(), outputs};
  ASSERT_FALSE(sample(request, result));
  for (std::size_t i = 0; i < static_cast<std::size_t>(kRows); ++i) {
    const auto row = static_cast<std::size_t>(indices[i]);
    EXPECT_EQ(tokens[i * kSamples], expected.tokens[row]) << "output " << i;
    EXPECT_EQ(statuses[i], expected.statuses[row]);
  }
  for (std::size_t i = static_cast<std::size_t>(kRows); i < indices.size(); ++i) {
    EXPECT_EQ(statuses[i], RowStatus::index_out_of_range);
    EXPECT_EQ(tokens[i * kSamples], -1);
  }
}

TEST(Batch, OneScalarSeedUsesTheNumberOfTheTokenInTheCall) {
  const std::vector<float> flat(4096, 0.0F);  // every token one word's value: draws differ
  constexpr std::int64_t kOutputs = 5;
  constexpr std::int32_t kSamples = 3;
  const std::vector<std::int32_t> indices(kOutputs, 0);
  SampleRequest request;
  request.logits = {flat.data(), DType::float32, 1, 4096, 4096};
  request.indices = {indices.data(), kOutputs};
  request.num_samples = kSamples;
  request.seed = std::uint64_t{42};
  request.offset = std::uint64_t{7};
  std::vector<std::int32_t> tokens(kOutputs * kSamples);
  SampleResult result;
  result.tokens = {tokens.data(), kOutputs * kSamples};
  ASSERT_FALSE(sample(request, result));
  for (std::uint32_t i = 0; i < tokens.size(); ++i) {
    // All weights are equal, so the token is the word's leading 12 bits.
    EXPECT_EQ(tokens[i], static_cast<std::int32_t>(random_word(42, 7, Purpose::draw, i) >> 52));
  }
}

TEST(Batch, InactiveRowsCostNothingAndTouchNothing) {
  const std::vector<std::uint8_t> active = {1, 0, 1};
  std::vector<float> logits(12, 0.0F);
  for (std::size_t i = 4; i < 8; ++i) logits[i] = std::nanf("");  // not even read
  std::vector<std::int32_t> tokens(3, -7);
  std::vector<RowStatus> statuses(3, RowStatus::ok);
  std::vector<float> probs(12, -7.0F);
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, 3, 4, 4};
  request.active = {active.data(), 3};
  SampleResult result;
  result.tokens = {tokens.data(), 3};
  result.statuses = {statuses.data(), 3};
  result.probs = {probs.data(), 3, 4};
  ASSERT_FALSE(sample(request, result));
  EXPECT_EQ(tokens[1], -1);
  EXPECT_EQ(statuses[1], RowStatus::inactive);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(probs[i], -7.0F);
  EXPECT_EQ(statuses[0], RowStatus::ok);
  EXPECT_EQ(statuses[2], RowStatus::ok);
  EXPECT_EQ(probs[0], 0.25F);
}

TEST(Batch, RowsBeyondTwoToTheThirtyTwoValuesAreAddressed) {
  // Stride 2^31 values of 2 bytes: row 3 starts at 6 * 2^31 bytes. Only rows 0 and 3 are active,
  // and the memory between them is never touched, so it is never made real.
  constexpr std::int64_t kStride = std::int64_t{1} << 31;
  constexpr std::size_t kBytes = static_cast<std::size_t>(3 * kStride + 64) * 2;
  auto* memory = static_cast<std::uint8_t*>(std::calloc(kBytes, 1));
  if (memory == nullptr) GTEST_SKIP() << "no address space for 12 GiB";
  const std::uint16_t one = 0x3f80;  // 1.0 as bfloat16
  std::memcpy(memory + (static_cast<std::size_t>(3 * kStride) + 5) * 2, &one, 2);
  const std::vector<std::uint8_t> active = {1, 0, 0, 1};
  std::vector<std::int32_t> tokens(4, -7);
  SampleRequest request;
  request.logits = {memory, DType::bfloat16, 4, 64, kStride};
  request.active = {active.data(), 4};
  request.temperature = 0.0F;
  SampleResult result;
  result.tokens = {tokens.data(), 4};
  const Error error = sample(request, result);
  std::free(memory);
  ASSERT_FALSE(error) << error.message;
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{0, -1, -1, 5}));
}

}  // namespace
}  // namespace fairdraw::suites
