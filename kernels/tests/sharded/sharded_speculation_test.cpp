// Speculation in shards gives what the calls over whole rows give, bit for bit, on every shard:
// random requests of chains and trees, every number of shards, boundaries anywhere.
#include "fairdraw/sharded_speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "harness/adapters/sharded_speculation.h"
#include "harness/inputs/dice.h"
#include "tests/operations/operation_calls.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;
using harness::HostArrays;
using harness::ShardTraffic;
using harness::speculate_in_shards;

constexpr Execution kOneThread{CpuTarget::best, 1};

/// What the comparison has met: statuses, and numbers of exchanges up to 9.
struct Met {
  std::array<std::int64_t, kRowStatuses> statuses{};
  std::array<std::int64_t, 10> exchanges{};
  std::int64_t requests = 0, accepted = 0;

  void add(const std::vector<RowStatus>& of_call, const std::vector<std::int32_t>& accepted_of,
           const ShardTraffic& traffic) {
    for (const RowStatus status : of_call) ++statuses.at(static_cast<std::size_t>(status));
    requests += static_cast<std::int64_t>(of_call.size());
    for (const std::int32_t count : accepted_of) accepted += count;
    ++exchanges.at(static_cast<std::size_t>(std::min<std::int32_t>(traffic.exchanges, 9)));
  }
  void expect_all(std::initializer_list<RowStatus> wanted) const {
    const std::int64_t least = is_reduced() ? -1 : 0;
    for (const RowStatus status : wanted) {
      EXPECT_GT(statuses.at(static_cast<std::size_t>(status)), least) << to_string(status);
    }
    EXPECT_GT(accepted, least);
  }
};

View<const std::int64_t> view_of(const std::vector<std::int64_t>& boundaries) {
  return {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
}

std::vector<std::int64_t> boundaries_of(std::uint64_t number, std::int64_t vocab) {
  Dice dice(number);
  return random_boundaries(dice, vocab);
}

void compare(const SpeculationCall& call, std::uint64_t number, Met& met) {
  const std::vector<std::int64_t> boundaries = boundaries_of(number, call.target.vocab);
  HostArrays host;
  const std::int64_t width = call.trees ? call.max_depth : call.max_draft;
  SpeculationOutputs expected(call, width), got(call, width);
  ShardTraffic traffic;
  Error refused, error;
  if (call.trees) {
    ShardedTreeRequest whole{tree_in(call, host), view_of(boundaries), 0};
    refused = verify_tree(whole.tree, speculation_result_in<VerifyTreeResult>(expected, host),
                          kOneThread);
    error = speculate_in_shards(whole, speculation_result_in<VerifyTreeResult>(got, host),
                                kOneThread, &traffic);
  } else {
    ShardedChainRequest whole{chain_in(call, host), view_of(boundaries), 0};
    refused = verify_chain(whole.chain, speculation_result_in<VerifyChainResult>(expected, host),
                           kOneThread);
    error = speculate_in_shards(whole, speculation_result_in<VerifyChainResult>(got, host),
                                kOneThread, &traffic);
  }
  ASSERT_FALSE(refused) << "call " << number << ": " << refused.message;
  ASSERT_FALSE(error) << "call " << number << ": " << error.message;
  EXPECT_EQ(difference(expected, got), "")
      << "call " << number << ", boundaries" << describe(boundaries);
  met.add(expected.statuses, expected.accepted, traffic);
}

constexpr std::array kStatusesOfRows = {RowStatus::ok,
                                        RowStatus::inactive,
                                        RowStatus::nan_input,
                                        RowStatus::invalid_top_p,
                                        RowStatus::index_out_of_range,
                                        RowStatus::invalid_draft_length,
                                        RowStatus::impossible_draft};

void expect_statuses_of_rows(const Met& met) {
  for (const RowStatus status : kStatusesOfRows) met.expect_all({status});
}

TEST(ShardedChains, AreTheUnshardedChains) {
  Met met;
  for (std::uint64_t number = 0; number < budget(400) && !HasFailure(); ++number) {
    Dice dice(number);
    compare(random_speculation_call(number, random_sharded_vocab(number, dice)), number, met);
  }
  expect_statuses_of_rows(met);
  // Rows by draw; then weights, and a token; and what is left of a rejected draft's target.
  for (std::size_t exchanges = 1; exchanges <= 4; ++exchanges) {
    EXPECT_GT(met.exchanges.at(exchanges), is_reduced() ? -1 : 0) << exchanges << " exchanges";
  }
}

TEST(ShardedTrees, AreTheUnshardedTrees) {
  Met met;
  for (std::uint64_t number = 0; number < budget(400) && !HasFailure(); ++number) {
    Dice dice(number);
    compare(random_speculation_call(number, random_sharded_vocab(number, dice), /*trees=*/true),
            number, met);
  }
  expect_statuses_of_rows(met);
  met.expect_all({RowStatus::invalid_draft_tree});
}

TEST(ShardedTrees, OfManyChildrenAreTheUnshardedTrees) {
  Met met;
  for (std::uint64_t number = 0; number < budget(40) && !HasFailure(); ++number) {
    compare(wide_speculation_call(number, 2 + static_cast<std::int64_t>(number % 30), 700), number,
            met);
  }
  EXPECT_GT(met.exchanges.back(), is_reduced() ? -1 : 0) << "no node rejects many children";
}

TEST(ShardedChains, OfSubnormalProbabilitiesAreTheUnshardedChains) {
  Met met;
  for (std::uint64_t number = 0; number < budget(20) && !HasFailure(); ++number) {
    compare(open_speculation_call(number, 5000, /*trees=*/number % 2 == 1), number, met);
  }
}

// --- chain_speculative_sampling ------------------------------------------------------------------

TEST(ShardedChainSampling, IsTheUnshardedOperation) {
  Met met;
  for (std::uint64_t number = 0; number < budget(300) && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const ChainCall call =
        number % 10 == 9 ? open_chain_call(number, vocab) : random_chain_call(number, vocab);
    const std::vector<std::int64_t> boundaries = boundaries_of(number, vocab);
    HostArrays host;
    ChainOutputs expected(call), got(call);
    ASSERT_FALSE(run_chain(call, expected, host, kOneThread)) << "call " << number;
    const auto view = [](auto& values) {
      return View(values.data(), static_cast<std::int64_t>(values.size()));
    };
    ShardedChainSamplingRequest whole;
    if (call.draft.rows > 0) whole.chain.draft_probs = request_in(call.draft, host).logits;
    const SampleRequest target = request_in(call.target, host);
    whole.chain.target_probs = target.logits;
    whole.chain.draft_tokens = {call.draft_tokens.data(),
                                static_cast<std::int64_t>(call.draft_tokens.size())};
    whole.chain.batch = call.batch;
    whole.chain.num_draft_tokens = call.num_draft_tokens;
    whole.chain.seed = target.seed;
    whole.chain.offset = target.offset;
    whole.boundaries = view_of(boundaries);
    ShardTraffic traffic;
    const Error error =
        speculate_in_shards(whole,
                            ChainSpeculativeResult{view(got.tokens), view(got.accepted),
                                                   view(got.emitted), view(got.statuses)},
                            kOneThread, &traffic);
    ASSERT_FALSE(error) << "call " << number << ": " << error.message;
    EXPECT_EQ(got.statuses, expected.statuses) << "call " << number;
    EXPECT_EQ(got.tokens, expected.tokens)
        << "call " << number << ", boundaries" << describe(boundaries);
    EXPECT_EQ(got.accepted, expected.accepted) << "call " << number;
    EXPECT_EQ(got.emitted, expected.emitted) << "call " << number;
    met.add(expected.statuses, expected.accepted, traffic);
  }
  met.expect_all({RowStatus::ok, RowStatus::nan_input, RowStatus::infinite_input,
                  RowStatus::negative_probability, RowStatus::no_allowed_token,
                  RowStatus::index_out_of_range});
}

// --- What is refused -----------------------------------------------------------------------------

/// One request of one drafted token over 300 tokens in two shards; both distributions are known.
struct SmallChain {
  std::vector<float> target = std::vector<float>(600, 0.5F);
  std::vector<float> draft = std::vector<float>(300, 0.25F);
  std::vector<std::int64_t> boundaries = {0, 140, 300};
  std::vector<std::uint64_t> seeds = {5};
  std::int32_t drafted = 7;
  std::vector<std::int32_t> tokens = {-7, -7};
  ShardedChainRequest request;
  VerifyChainResult result;

  explicit SmallChain(std::int32_t shard) {
    const std::int64_t columns = shard == 0 ? 140 : 160;
    request.chain.target.logits = {target.data(), DType::float32, 2, columns, 300};
    request.chain.target.batch = 1;
    request.chain.target.seed = {seeds.data(), 1};
    request.chain.max_draft = 1;
    request.chain.draft_tokens = {&drafted, 1};
    request.chain.draft_law = DraftLaw::logits;
    request.chain.draft = {draft.data(), DType::float32, 1, columns, 300};
    request.boundaries = view_of(boundaries);
    request.shard = shard;
    result.tokens = {tokens.data(), 2};
  }
};

TEST(ShardedSpeculation, RefusesBlocksOfAnotherCall) {
  SmallChain first(0), second(1);
  second.seeds[0] = 6;  // a rank's own seed
  ShardedSpeculation one, other;
  ASSERT_FALSE(one.begin(first.request, first.result));
  ASSERT_FALSE(other.begin(second.request, second.result));
  ASSERT_EQ(one.block_bytes(), other.block_bytes());
  std::vector<std::byte> blocks(one.block(), one.block() + one.block_bytes());
  blocks.insert(blocks.end(), other.block(), other.block() + other.block_bytes());
  const Error error = one.receive(blocks.data());
  EXPECT_NE(error.message.find("block of shard 1 is of another call"), std::string::npos)
      << error.message;
  EXPECT_EQ(first.tokens, (std::vector<std::int32_t>{-7, -7}));
  EXPECT_EQ(one.block_bytes(), 0) << "the call has ended";
}

TEST(ShardedSpeculation, RefusesWeightsThatDoNotAddUp) {
  SmallChain first(0), second(1);
  ShardedSpeculation one, other;
  ASSERT_FALSE(one.begin(first.request, first.result));
  ASSERT_FALSE(other.begin(second.request, second.result));
  for (std::int32_t exchange = 0;; ++exchange) {
    ASSERT_LT(exchange, 3) << "no exchange was refused";
    std::vector<std::byte> blocks(one.block(), one.block() + one.block_bytes());
    blocks.insert(blocks.end(), other.block(), other.block() + other.block_bytes());
    // The second exchange has weights, after a header of 16 bytes: here a node's sum of 2^63.
    if (exchange == 1) blocks[16 + 7] = std::byte{0x80};
    const Error error = one.receive(blocks.data());
    if (exchange == 1) {
      EXPECT_NE(error.message.find("do not add up"), std::string::npos) << error.message;
      EXPECT_EQ(first.tokens, (std::vector<std::int32_t>{-7, -7}));
      return;
    }
    ASSERT_FALSE(error) << error.message;
    ASSERT_FALSE(other.receive(blocks.data()));
  }
}

TEST(ShardedSpeculation, RefusesWrongColumnsByName) {
  SmallChain chain(0);
  ShardedSpeculation call;
  chain.request.chain.target.logits.vocab = 139;
  EXPECT_EQ(call.begin(chain.request, chain.result).message,
            "target.logits.vocab is 139; allowed: 140, the columns of shard 0");
  SmallChain narrow(0);
  narrow.request.chain.draft.vocab = 139;
  EXPECT_EQ(call.begin(narrow.request, narrow.result).message,
            "draft.vocab is 139; allowed: 140 (the vocabulary of target.logits)");
}

}  // namespace
}  // namespace fairdraw::suites
