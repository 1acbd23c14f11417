// A token must be a pure function of its row, parameters, seed and offset. So the token must not
// depend on the rest of the batch, on the row's address or on the number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/philox.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "harness/inputs/owned_call.h"
#include "tests/sample/random_rows.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kRows = 33;
constexpr std::int64_t kVocab = 1003;  // a length that is not a multiple of a vector's width

/// Returns rows of one vocabulary with their own parameters. The rows lie `stride` values apart,
/// and the first one starts `shift` bytes into the buffer.
harness::OwnedCall batch_of_rows(DType dtype, std::int64_t stride, std::size_t shift) {
  harness::OwnedCall call;
  call.allocate(dtype, kRows, kVocab, stride, shift);
  call.make_parameter_arrays(kRows);
  for (auto* parameter : {&call.seed, &call.offset}) parameter->make_array(kRows);
  for (std::int64_t i = 0; i < kRows; ++i) {
    const RandomRow row = random_row_of(7000000 + static_cast<std::uint64_t>(i), kVocab);
    call.set_row(i, row.logits.data());
    call.set_parameters(i, row.parameters);
    call.seed.set(i) = row.seed;
    call.offset.set(i) = row.offset;
  }
  return call;
}

struct Outcome {
  std::vector<std::int32_t> tokens;
  std::vector<RowStatus> statuses;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const harness::OwnedCall& call, const Execution& execution) {
  const auto count = static_cast<std::size_t>(call.outputs());
  const auto tokens = static_cast<std::int64_t>(count) * call.num_samples;
  Outcome outcome{std::vector<std::int32_t>(static_cast<std::size_t>(tokens), -7),
                  std::vector<RowStatus>(count, RowStatus::inactive)};
  harness::HostArrays arrays;
  SampleResult result;
  result.tokens = {outcome.tokens.data(), tokens};
  result.statuses = {outcome.statuses.data(), call.outputs()};
  const Error error = sample(request_in(call, arrays), result, execution);
  EXPECT_FALSE(error) << error.message;
  return outcome;
}

TEST(Batch, StrideAlignmentAndThreadsChangeNothingInAnyDtype) {
  for (const CpuTarget target : available_targets()) {
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
      const harness::OwnedCall call = batch_of_rows(dtype, kVocab, 0);
      const Outcome expected = run(call, {target, 1});
      for (const std::size_t shift : {1U, 2U, 3U, 4U, 8U, 20U, 33U, 63U}) {
        EXPECT_EQ(run(batch_of_rows(dtype, kVocab, shift), {target, 1}), expected)
            << to_string(target) << " " << to_string(dtype) << " shift " << shift;
      }
      for (const std::int64_t stride : {kVocab + 1, kVocab + 21, 2 * kVocab}) {
        EXPECT_EQ(run(batch_of_rows(dtype, stride, 0), {target, 1}), expected)
            << "stride " << stride;
      }
      for (const int threads : {0, 2, 3, 8, 64}) {
        EXPECT_EQ(run(call, {target, threads}), expected) << "threads " << threads;
      }
    }
  }
}

TEST(Batch, ARowAloneThroughIndicesAndWithManySamplesIsTheSame) {
  const harness::OwnedCall batch = batch_of_rows(DType::float32, kVocab, 0);
  const Outcome expected = run(batch, {});
  // Output i samples row (7 i) mod 33 with that row's seed, so that every row occurs, in another
  // order.
  harness::OwnedCall call = batch;
  call.num_samples = 3;
  for (std::int32_t i = 0; i < kRows; ++i) {
    const std::int32_t row = (7 * i) % static_cast<std::int32_t>(kRows);
    call.indices.push_back(row);
    call.seed.set(i) = batch.seed.at(row);
    call.offset.set(i) = batch.offset.at(row);
  }
  call.indices.push_back(-1);
  call.indices.push_back(static_cast<std::int32_t>(kRows));
  call.seed.values.resize(call.indices.size());
  call.offset.values.resize(call.indices.size());
  const Outcome got = run(call, {});
  for (std::size_t i = 0; i < call.indices.size(); ++i) {
    const auto row = static_cast<std::size_t>(call.indices[i]);
    const bool inside = i < static_cast<std::size_t>(kRows);
    EXPECT_EQ(got.tokens[i * 3], inside ? expected.tokens[row] : -1) << "output " << i;
    EXPECT_EQ(got.statuses[i], inside ? expected.statuses[row] : RowStatus::index_out_of_range);
  }
}

/// Finds whether each other tie rule, and each other filter order, gives a row other survivors.
struct Choices {
  bool of_ties, of_order;
};
Choices choices_of(const RandomRow& row) {
  const auto mask = [&row](bool other_ties, bool other_order) {
    const auto ties = static_cast<TieRule>((row.tie_rule == TieRule::lowest_id) != other_ties);
    const auto order =
        static_cast<FilterOrder>((row.filter_order == FilterOrder::joint) != other_order);
    return reference::integer_model(row.logits, {}, row.parameters, ties, order).mask;
  };
  const auto here = mask(false, false);
  return {here != mask(true, false), here != mask(false, true)};
}

TEST(Batch, RowsOfOwnTieRulesAndFilterOrdersAreTheRowsAlone) {
  constexpr std::int64_t kTokens = 40;
  std::vector<RandomRow> rows;
  harness::OwnedCall batch;
  batch.allocate(DType::float32, kRows, kTokens, kTokens, 0);
  batch.make_parameter_arrays(kRows);
  batch.seed.make_array(kRows);
  batch.tie_rule.make_array(kRows);
  batch.filter_order.make_array(kRows);
  for (std::int64_t i = 0; i < kRows; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    RandomRow row = random_row_of(7100000 + at, kTokens);
    // Each of ten values occurs four times, so that some of them tie with the k-th.
    for (std::size_t t = 0; t < kTokens; ++t) row.logits[t] = static_cast<float>((t * 7 + at) % 10);
    row.parameters = {4.0F, static_cast<std::int32_t>(2 + at % 20), i % 2 == 0 ? 0.4F : 0.9F, 0};
    row.tie_rule = static_cast<TieRule>(at % 2);
    row.filter_order = static_cast<FilterOrder>(at / 2 % 2);
    batch.set_row(i, row.logits.data());
    batch.set_parameters(i, row.parameters);
    batch.seed.set(i) = row.seed;
    batch.tie_rule.set(i) = row.tie_rule;
    batch.filter_order.set(i) = row.filter_order;
    row.offset = 0;
    rows.push_back(std::move(row));
  }
  int by_ties = 0, by_order = 0;
  for (const RandomRow& row : rows) {
    const Choices choices = choices_of(row);
    by_ties += choices.of_ties ? 1 : 0;
    by_order += choices.of_order ? 1 : 0;
  }
  ASSERT_GT(by_ties, 5);
  ASSERT_GT(by_order, 5);
  for (const CpuTarget target : available_targets()) {
    std::vector<std::int32_t> tokens(kRows, -7);
    std::vector<std::uint64_t> masks(kRows);  // two words a row
    const auto result_at = [&](std::size_t row, std::int64_t count) {
      SampleResult result;
      result.tokens = {tokens.data() + row, count};
      result.mask = {reinterpret_cast<std::uint32_t*>(masks.data() + row), count, 2};
      return result;
    };
    harness::HostArrays host;
    ASSERT_FALSE(sample(request_in(batch, host), result_at(0, kRows), {target, 3}));
    const auto batch_tokens = tokens;
    const auto batch_masks = masks;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const RandomRow& row = rows[i];
      SampleRequest alone = request_of(row, 1);
      alone.allowed = {};
      ASSERT_FALSE(sample(alone, result_at(i, 1), {target, 1}));
      const auto model =
          reference::integer_model(row.logits, {}, row.parameters, row.tie_rule, row.filter_order);
      for (std::size_t t = 0; t < kTokens; ++t) {
        EXPECT_EQ(model.mask[t], (batch_masks[i] >> t) & 1U) << describe(row) << " token " << t;
      }
    }
    EXPECT_EQ(tokens, batch_tokens) << to_string(target);
    EXPECT_EQ(masks, batch_masks) << to_string(target);
  }
}

TEST(Batch, OneScalarSeedUsesTheNumberOfTheTokenInTheCall) {
  const std::vector<float> flat(4096, 0.0F);  // flat logits, so that different random words give
                                              // different tokens
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
    // All weights are equal, so the token is given by the leading 12 bits of the word.
    EXPECT_EQ(tokens[i], static_cast<std::int32_t>(random_word(42, 7, Purpose::draw, i) >> 52));
  }
}

TEST(Batch, RequestsWithoutASeedHaveFreshOnesAndSayWhich) {
  const std::vector<float> flat(4096, 0.0F);
  constexpr std::int32_t kSamples = 8;
  const auto draw = [&flat](const PerRequest<std::uint64_t>& seed) {
    SampleRequest request;
    request.logits = {flat.data(), DType::float32, 1, 4096, 4096};
    request.num_samples = kSamples;
    request.seed = seed;
    std::vector<std::int32_t> tokens(kSamples);
    SampleResult result;
    result.tokens = {tokens.data(), kSamples};
    EXPECT_FALSE(sample(request, result));
    return tokens;
  };
  const SampleRequest one, other;
  EXPECT_FALSE(one.seed.is_array());
  EXPECT_NE(one.seed.scalar, other.seed.scalar);
  // Each seed draws eight words of which 12 bits count, so that equal tokens occur by chance once
  // in 2^96 runs.
  EXPECT_NE(draw(one.seed), draw(other.seed));
  EXPECT_EQ(draw(one.seed), draw(one.seed.scalar)) << "the seed says which tokens";
  const SampleRequest copy = one;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy.seed.scalar, one.seed.scalar);
  EXPECT_NE(DrawOptions{}.seed.scalar, DrawOptions{}.seed.scalar);
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
  // The stride is 2^31 values of 2 bytes, so that row 3 starts at 6 * 2^31 bytes. Only rows 0 and 3
  // are active. The memory between these two rows is never accessed, so the operating system never
  // allocates it.
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
