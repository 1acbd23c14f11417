// Sharded rows of probabilities, sharded operations, and random words that the caller supplies must
// give the results of the unsharded operation, bit for bit, for every number of shards and any
// boundaries.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "fairdraw/sharded.h"
#include "harness/adapters/sharded.h"
#include "harness/inputs/dice.h"
#include "reference/integer_model.h"
#include "tests/operations/operation_calls.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;
using harness::HostArrays;
using harness::OwnedCall;
using harness::sample_in_shards;

/// The operations whose result is a draw or a matrix; the operation that masks logits corresponds
/// to the mask of a call.
constexpr std::array kOperationsInShards = {
    Operation::softmax,
    Operation::sampling_from_probs,
    Operation::top_k_sampling_from_probs,
    Operation::top_p_sampling_from_probs,
    Operation::min_p_sampling_from_probs,
    Operation::top_k_top_p_sampling_from_probs,
    Operation::top_k_renorm_probs,
    Operation::top_p_renorm_probs,
    Operation::top_k_mask_logits,
};

/// Keeps the filters of a call that the operation has, and turns the others off.
void keep_filters_of(Operation operation, ShardedRequest& whole) {
  SampleRequest& rows = whole.rows;
  const auto is = [operation](auto... any) { return ((operation == any) || ...); };
  whole.input =
      is(Operation::softmax, Operation::top_k_mask_logits) ? TileInput::logits : TileInput::probs;
  whole.top_k_1_keeps_ties = is(Operation::top_k_renorm_probs, Operation::top_k_mask_logits);
  rows.tie_rule = TieRule::keep_all;
  rows.purpose = Purpose::draw;
  if (!is(Operation::softmax)) rows.temperature = 1.0F;
  if (!is(Operation::top_k_sampling_from_probs, Operation::top_k_top_p_sampling_from_probs,
          Operation::top_k_renorm_probs, Operation::top_k_mask_logits)) {
    rows.top_k = 0;
  }
  if (!is(Operation::top_p_sampling_from_probs, Operation::top_k_top_p_sampling_from_probs,
          Operation::top_p_renorm_probs)) {
    rows.top_p = 1.0F;
  }
  if (!is(Operation::min_p_sampling_from_probs)) rows.min_p = 0.0F;
  if (!is(Operation::top_k_top_p_sampling_from_probs)) {
    rows.filter_order = FilterOrder::top_k_first;
  }
}

/// Runs the operation on the shards, with outputs that are filled beforehand.
Error run_in_shards(Operation operation, const OwnedCall& call,
                    const std::vector<std::int64_t>& boundaries, OperationOutputs& outputs,
                    HostArrays& host) {
  ShardedRequest whole;
  whole.rows = harness::request_in(call, host);
  whole.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
  keep_filters_of(operation, whole);
  if (outputs.tokens.empty()) {  // nothing is drawn
    whole.rows.seed = whole.rows.offset = std::uint64_t{0};
    whole.rows.num_samples = 1;
  }
  const auto view = [](auto& values) {
    return View(values.data(), static_cast<std::int64_t>(values.size()));
  };
  SampleResult result;
  result.statuses = view(outputs.statuses);
  if (!outputs.tokens.empty()) result.tokens = view(outputs.tokens);
  if (!outputs.matrix.empty()) {
    result.probs = {outputs.matrix.data(), call.rows, outputs.matrix_stride};
  }
  std::vector<std::uint32_t> kept(static_cast<std::size_t>(call.rows * ((call.vocab + 31) / 32)));
  if (operation == Operation::top_k_mask_logits) {
    result.mask = {kept.data(), call.rows, (call.vocab + 31) / 32};
  }
  if (Error error = sample_in_shards(whole, result, {CpuTarget::best, 1})) return error;
  if (!result.mask.given()) return {};
  // Masks logits as the unsharded operation defines it: a value becomes -inf if and only if the
  // mask has no bit for it, or it was -inf before.
  const std::size_t size = call.dtype == DType::float32 ? 4 : 2;
  const std::uint32_t dropped = call.dtype == DType::float32   ? 0xff800000U
                                : call.dtype == DType::float16 ? 0xfc00U
                                                               : 0xff80U;
  for (std::int64_t row = 0; row < call.rows; ++row) {
    for (std::int64_t id = 0; id < call.vocab; ++id) {
      const std::uint32_t word = result.mask.data[row * result.mask.row_stride + id / 32];
      const bool is_kept = ((word >> (id % 32)) & 1U) != 0;
      const auto at = [&](std::int64_t stride) {
        return call.shift + static_cast<std::size_t>(row * stride + id) * size;
      };
      std::memcpy(outputs.masked.data() + at(outputs.masked_stride),
                  is_kept ? static_cast<const void*>(call.values.data() + at(call.row_stride))
                          : static_cast<const void*>(&dropped),
                  size);
    }
  }
  return {};
}

TEST(ShardedOperations, AreTheUnshardedOperations) {
  std::array<std::int64_t, kRowStatuses> statuses{};
  const auto calls = static_cast<std::uint64_t>(budget(900));
  for (std::uint64_t number = 0; number < calls && !HasFailure(); ++number) {
    const Operation operation = kOperationsInShards.at(number % kOperationsInShards.size());
    const std::uint64_t of_operation = number / kOperationsInShards.size();
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(of_operation, dice);
    const auto rows = static_cast<std::int64_t>(1 + of_operation % 7);
    const OwnedCall call = random_operation_call(operation, of_operation, rows, vocab);
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    HostArrays host;
    OperationOutputs expected(operation, call), got(operation, call);
    const Error refused =
        run_operation(operation, call, expected, host, Execution{CpuTarget::best, 1});
    ASSERT_FALSE(refused) << to_string(operation) << " " << number << ": " << refused.message;
    const Error error = run_in_shards(operation, call, boundaries, got, host);
    ASSERT_FALSE(error) << to_string(operation) << " " << number << ": " << error.message;
    EXPECT_TRUE(got == expected) << to_string(operation) << ", call " << number << " of " << rows
                                 << " rows, boundaries" << describe(boundaries);
    for (const RowStatus status : expected.statuses) {
      ++statuses.at(static_cast<std::size_t>(status));
    }
  }
  for (const RowStatus status :
       {RowStatus::ok, RowStatus::nan_input, RowStatus::infinite_input,
        RowStatus::negative_probability, RowStatus::no_allowed_token, RowStatus::invalid_top_k,
        RowStatus::invalid_top_p, RowStatus::invalid_min_p, RowStatus::index_out_of_range}) {
    EXPECT_GT(statuses.at(static_cast<std::size_t>(status)), is_reduced() ? -1 : 0)
        << to_string(status);
  }
}

// --- Random words of the caller ------------------------------------------------------------------

TEST(ShardedWords, DrawTheTokensOfTheModel) {
  constexpr std::int32_t kWords = 9;
  for (std::uint64_t number = 0; number < 60 && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    std::vector<float> row;
    for (std::int64_t id = 0; id < vocab; ++id) row.push_back(static_cast<float>(dice.bell()));
    const reference::RowParameters parameters{dice.pick({1.0F, 0.5F, 0.0F}), dice.pick({0, 3, 700}),
                                              dice.pick({1.0F, 0.7F}), dice.pick({0.0F, 0.2F})};
    std::vector<std::uint64_t> words = {0, ~std::uint64_t{0}};
    while (words.size() < kWords) words.push_back(dice.bits());
    ShardedRequest whole;
    whole.rows.logits = {row.data(), DType::float32, 1, vocab, vocab};
    whole.rows.temperature = parameters.temperature;
    whole.rows.top_k = parameters.top_k;
    whole.rows.top_p = parameters.top_p;
    whole.rows.min_p = parameters.min_p;
    whole.rows.num_samples = kWords;
    whole.words = {words.data(), kWords};
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    whole.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    std::vector<std::int32_t> tokens(kWords, -7);
    SampleResult result;
    result.tokens = {tokens.data(), kWords};
    ASSERT_FALSE(sample_in_shards(whole, result, {CpuTarget::best, 1}));
    const reference::IntegerRow model = reference::integer_model(row, {}, parameters);
    for (std::size_t i = 0; i < words.size(); ++i) {
      EXPECT_EQ(tokens[i], model.token_for(words[i]))
          << "row " << number << ", word " << words[i] << ", boundaries" << describe(boundaries);
    }
  }
}

// --- What is refused -----------------------------------------------------------------------------

struct OneShard {
  std::vector<float> rows = std::vector<float>(300, 0.5F);
  std::vector<std::int64_t> boundaries = {0, 300};
  std::vector<std::uint64_t> words = {1, 2};
  std::int32_t token = -7;
  float number = 0;
  ShardedRequest request;
  SampleResult result;

  OneShard() {
    request.rows.logits = {rows.data(), DType::float32, 1, 300, 300};
    request.boundaries = {boundaries.data(), 2};
    request.input = TileInput::probs;
    result.tokens = {&token, 1};
  }
  std::string message() const {
    ShardedSample call;
    return call.begin(request, result).message;
  }
};

TEST(ShardedOperations, RefusesByNameWhatProbabilitiesDoNotHave) {
  OneShard hot;
  hot.request.rows.temperature = 0.5F;
  EXPECT_EQ(hot.message(), "temperature is 0.500000; allowed: 1, of rows of probabilities");
  OneShard reported;
  reported.result.logprob = {&reported.number, 1};
  EXPECT_EQ(reported.message(), "logprob is given; allowed: none, of rows of probabilities");
  OneShard words;
  words.request.words = {words.words.data(), 2};
  EXPECT_EQ(words.message(), "length of words is 2; allowed: 1 (outputs * num_samples)");
  OneShard other;
  other.request.input = static_cast<TileInput>(2);
  EXPECT_EQ(other.message(), "input is 2; allowed: 0 (logits) or 1 (probs)");
  OneShard none;
  none.result = {};
  EXPECT_NE(none.message().find("tokens"), std::string::npos) << none.message();
}

}  // namespace
}  // namespace fairdraw::suites
