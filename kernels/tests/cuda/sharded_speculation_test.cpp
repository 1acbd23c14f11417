// Chains and trees of drafted tokens over sharded rows in device memory: tokens, nodes, accepted
// drafts and statuses of every shard are those of verify_chain and verify_tree over the whole rows,
// bit for bit. All shards have the same GPU here; what one sends is copied to the others, or goes
// through memory that all of them address.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "fairdraw/cuda_sharded_speculation.h"
#include "harness/inputs/dice.h"
#include "harness/inputs/random_calls.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/device_chains.h"
#include "tests/cuda/device_shard.h"
#include "tests/cuda/graphs.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;

/// Rounds that are enqueued at once; more of them follow where rows are left.
constexpr int kRounds = 1;

struct Met {
  std::array<std::int64_t, kRowStatuses> statuses{};
  std::array<std::int64_t, 3> laws{};
  std::int64_t accepted = 0, continued = 0;

  void expect_all(std::initializer_list<RowStatus> wanted) const {
    const std::int64_t least = is_reduced() ? -1 : 0;
    for (const RowStatus status : wanted) {
      EXPECT_GT(statuses.at(static_cast<std::size_t>(status)), least) << to_string(status);
    }
    EXPECT_GT(accepted, least);
  }
};

void compare(const SpeculationCall& call, const std::vector<std::int64_t>& boundaries,
             const std::string& where, bool through_peers, Met& met) {
  const SpeculationOutputs expected = expected_of(call);
  DeviceChains device(call, boundaries);
  Error error = device.begin();
  ASSERT_FALSE(error) << error.message << ", " << where;
  // Every other call by copies, and through peers in a memory for more rows than it has.
  if (through_peers) {
    error = device.use_peers(call.target.rows + 2);
    ASSERT_FALSE(error) << error.message << ", " << where;
  }
  error = device.run(0, kRounds);
  ASSERT_FALSE(error) << error.message << ", " << where;
  constexpr int kMostRounds = 20;
  for (int more = 0; device.undecided() > 0 && more < kMostRounds; ++more) {
    ++met.continued;
    ASSERT_FALSE(device.run(1, 1));
  }
  EXPECT_EQ(device.undecided(), 0) << where;
  device.fetch();
  for (int shard = 0; shard < device.size(); ++shard) {
    ASSERT_EQ(difference(expected, device.at(shard).outputs), "")
        << "shard " << shard << ", " << where;
  }
  for (const RowStatus status : expected.statuses) {
    ++met.statuses.at(static_cast<std::size_t>(status));
  }
  for (const std::int32_t count : expected.accepted) met.accepted += count;
  ++met.laws.at(static_cast<std::size_t>(call.draft_law));
}

std::string named(std::uint64_t number, const std::vector<std::int64_t>& boundaries) {
  return "call " + std::to_string(number) + ", boundaries" + describe(boundaries);
}

TEST(CudaShardedChains, AreTheUnshardedChains) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const char* asked = std::getenv("FAIRDRAW_SHARDED_CALLS");
  const std::uint64_t calls = asked != nullptr ? std::strtoull(asked, nullptr, 10) : budget(400);
  Met met;
  for (std::uint64_t number = 0; number < calls && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    SpeculationCall call = random_speculation_call(number, vocab);
    if (number % 3 == 0) {
      call.target.processing = harness::random_processing(number, call.target.rows, vocab);
    }
    compare(call, boundaries, named(number, boundaries), number % 2 != 0, met);
  }
  met.expect_all({RowStatus::ok, RowStatus::inactive, RowStatus::nan_input,
                  RowStatus::infinite_input, RowStatus::no_allowed_token, RowStatus::invalid_top_p,
                  RowStatus::index_out_of_range, RowStatus::invalid_draft_length,
                  RowStatus::impossible_draft});
  for (const std::int64_t count : met.laws) EXPECT_GT(count, is_reduced() ? -1 : 0);
  EXPECT_GT(met.continued, is_reduced() ? -1 : 0) << "no row needs more rounds";
}

TEST(CudaShardedTrees, AreTheUnshardedTrees) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const char* asked = std::getenv("FAIRDRAW_SHARDED_CALLS");
  const std::uint64_t calls = asked != nullptr ? std::strtoull(asked, nullptr, 10) : budget(400);
  Met met;
  for (std::uint64_t number = 0; number < calls && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    SpeculationCall call = random_speculation_call(number, vocab, /*trees=*/true);
    if (number % 3 == 0) {
      call.target.processing = harness::random_processing(number, call.target.rows, vocab);
    }
    compare(call, boundaries, named(number, boundaries), number % 2 != 0, met);
  }
  met.expect_all({RowStatus::ok, RowStatus::inactive, RowStatus::nan_input,
                  RowStatus::infinite_input, RowStatus::no_allowed_token, RowStatus::invalid_top_p,
                  RowStatus::index_out_of_range, RowStatus::invalid_draft_length,
                  RowStatus::impossible_draft, RowStatus::invalid_draft_tree});
  for (const std::int64_t count : met.laws) EXPECT_GT(count, is_reduced() ? -1 : 0);
}

/// Many children of one node: what they leave takes long integers, and an exchange each.
TEST(CudaShardedTrees, OfManyChildrenAreTheUnshardedTrees) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Met met;
  for (std::uint64_t number = 0; number < budget(6) && !HasFailure(); ++number) {
    constexpr std::int64_t kChildren = 60, kVocab = 700;
    Dice dice(number);
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, kVocab);
    compare(wide_speculation_call(number, kChildren, kVocab), boundaries, named(number, boundaries),
            number % 2 != 0, met);
  }
}

/// Tests that bounds of totals would leave open are decided by the totals.
TEST(CudaShardedChains, OfSubnormalProbabilitiesAreTheUnshardedChains) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Met met;
  for (std::uint64_t number = 0; number < budget(20) && !HasFailure(); ++number) {
    constexpr std::int64_t kVocab = 5000;
    Dice dice(number);
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, kVocab);
    compare(open_speculation_call(number, kVocab, /*trees=*/number % 4 > 1), boundaries,
            named(number, boundaries), number % 2 != 0, met);
  }
  EXPECT_GT(met.accepted, is_reduced() ? -1 : 0);
}

// --- What needs more than was enqueued -----------------------------------------------------------

/// One request of two drafts over two shards, whose nuclei are beyond the candidates.
SpeculationCall wide_chain(DraftLaw law) {
  constexpr std::int64_t kVocab = 9000, kDrafts = 2;
  Dice dice(static_cast<std::uint64_t>(law) + 5);
  SpeculationCall call;
  call.batch = 1;
  call.max_draft = kDrafts;
  call.draft_law = law;
  call.draft_tokens = {17, 5000};
  const auto fill = [&](OwnedCall& side, std::int64_t rows) {
    side.allocate(DType::float32, rows, kVocab, kVocab, 0);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<float> values(kVocab);
      for (float& value : values) value = static_cast<float>(0.1 * dice.bell());
      for (const std::size_t drafted : {17U, 4017U, 5000U}) values[drafted] = 0.3F;  // survives
      side.set_row(row, values.data());
    }
    side.top_p.make_array(1);
    side.top_p.set(0) = 0.9F;
  };
  fill(call.target, kDrafts + 1);
  call.target.offset.make_array(1);
  if (law != DraftLaw::none) fill(call.draft, kDrafts);
  return call;
}

void expect_results_when_rounds_suffice(DraftLaw law) {
  const SpeculationCall call = wide_chain(law);
  const SpeculationOutputs expected = expected_of(call);
  ASSERT_EQ(expected.statuses, std::vector{RowStatus::ok});
  const std::vector<std::int64_t> boundaries = {0, 4000, 9000};
  DeviceChains device(call, boundaries);
  ASSERT_FALSE(device.begin());
  ASSERT_FALSE(device.run(0, 0));
  const std::int32_t rows = law == DraftLaw::none ? 3 : 5;
  EXPECT_EQ(device.undecided(), rows);
  device.fetch();
  const SpeculationOutputs untouched(call, call.max_draft);
  EXPECT_EQ(difference(untouched, device.at(1).outputs), "");
  ASSERT_FALSE(device.run(1, 4));
  EXPECT_EQ(device.undecided(), 0);
  device.fetch();
  for (int shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(difference(expected, device.at(shard).outputs), "") << "shard " << shard;
  }
}

TEST(CudaShardedChains, ThatNeedMoreRoundsKeepTheirResultsUntilThen) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const DraftLaw law : {DraftLaw::none, DraftLaw::logits}) {
    expect_results_when_rounds_suffice(law);
  }
}

TEST(CudaShardedChains, OfRanksThatDisagreeHaveNoResults) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::vector<std::int64_t> boundaries = {0, 4000, 9000};
  for (const DraftLaw law : {DraftLaw::none, DraftLaw::logits}) {
    SpeculationCall call = wide_chain(law);
    DeviceChains device(call, boundaries);
    ++call.target.seed.scalar;  // a rank's own
    device.replace(1, call, boundaries);
    ASSERT_FALSE(device.begin());
    ASSERT_FALSE(device.run(0, 4));
    EXPECT_EQ(device.undecided(), -1);
    device.fetch();
    const SpeculationOutputs untouched(call, call.max_draft);
    EXPECT_EQ(difference(untouched, device.at(0).outputs), "");
  }
}

// --- Through peers -------------------------------------------------------------------------------

/// One rank waits for no other kernel: so a whole call can be tried on one GPU. It takes turns in
/// its memory with a call of sampled rows, whose kernels know the memory themselves.
TEST(CudaShardedChains, OfOneRankGoThroughItsMemory) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const DraftLaw law : {DraftLaw::none, DraftLaw::logits}) {
    const SpeculationCall call = wide_chain(law);
    const std::vector<std::int64_t> boundaries = {0, 9000};
    DeviceChains device(call, boundaries);
    ASSERT_FALSE(device.begin());
    EXPECT_NE(cuda::verify_sharded(device.at(0).call, {}).message.find("peers is not set"),
              std::string::npos);
    EXPECT_NE(cuda::continue_sharded(device.at(0).call, {}).message.find("peers is not set"),
              std::string::npos);
    ASSERT_FALSE(device.use_peers(3));
    const std::vector<float> logits(9000, 0.5F);
    ShardedRequest rows;
    rows.rows.logits = {logits.data(), DType::float32, 1, 9000, 9000};
    rows.rows.seed = std::uint64_t{1};
    rows.boundaries = {boundaries.data(), 2};
    DeviceShard sampled(rows, /*wants_mask=*/false);
    ASSERT_FALSE(sampled.begin());
    std::vector<std::int32_t> token(1);
    SampleResult wanted;
    wanted.tokens = {token.data(), 1};
    ASSERT_FALSE(sample(rows.rows, wanted, {CpuTarget::best, 1}));
    ASSERT_GE(device.peers().bytes, cuda::peer_bytes(sampled.call, 3)) << "the chain is smaller";
    ASSERT_FALSE(cuda::use_peers(sampled.call, device.peers()));
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_FALSE(cuda::sample_sharded(sampled.call, {.rounds = turn}));
      ASSERT_FALSE(cuda::verify_sharded(device.at(0).call, {.rounds = 0}));
      EXPECT_GT(device.undecided(), 0);
      ASSERT_FALSE(cuda::continue_sharded(device.at(0).call, {.rounds = 4}));
    }
    EXPECT_EQ(device.undecided(), 0);
    device.fetch();
    EXPECT_EQ(difference(expected_of(call), device.at(0).outputs), "");
    sampled.fetch();
    EXPECT_EQ(sampled.tokens, token);
  }
}

TEST(CudaShardedChains, PeersThatAreNotRightAreNamed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::vector<std::int64_t> boundaries = {0, 4000, 9000};
  DeviceChains device(wide_chain(DraftLaw::none), boundaries);
  ASSERT_FALSE(device.begin());
  EXPECT_EQ(cuda::peer_bytes(device.at(0).call, 2), 0) << "the call has three rows";
  cuda::ShardedPeers peers;
  peers.most_rows = 2;
  EXPECT_EQ(cuda::use_peers(device.at(0).call, peers).message,
            "peers.most_rows is 2; allowed: 3, the call's rows, to 2147483647");
  peers.most_rows = 3;
  const std::int64_t needed = cuda::peer_bytes(device.at(0).call, 3);
  peers.bytes = needed - 1;
  EXPECT_EQ(
      cuda::use_peers(device.at(0).call, peers).message,
      "peers.bytes is " + std::to_string(needed - 1) + "; allowed: >= " + std::to_string(needed));
}

// --- Graphs --------------------------------------------------------------------------------------

/// Replayed with other drafts and other offsets: nothing is left over from the call before.
TEST(CudaShardedChains, AreCapturedAndReplayed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::vector<std::int64_t> boundaries = {0, 4000, 9000};
  for (const DraftLaw law : {DraftLaw::none, DraftLaw::logits}) {
    SpeculationCall call = wide_chain(law);
    DeviceChains device(call, boundaries);
    Stream stream;
    ASSERT_FALSE(device.begin(stream.get()));
    Graph phases, graph;
    Graph::begin(stream);
    for (int number = 0; number < device.at(0).call.exchanges(4); ++number) {
      ASSERT_FALSE(device.send(device.at(0).call.exchange(number, 4)));
      ASSERT_FALSE(device.receive(device.at(0).call.exchange(number, 4)));
    }
    ASSERT_FALSE(device.finish());
    phases.end(stream);
    phases.expect_device_work_only("phases of a sharded chain");
    Graph::begin(stream);
    ASSERT_FALSE(device.run(0, 4));
    graph.end(stream);
    for (int replay = 0; replay < 3; ++replay) {
      call.target.offset.set(0) += 100;
      call.draft_tokens[0] = replay % 2 == 0 ? 4017 : 17;
      for (int shard = 0; shard < 2; ++shard) device.at(shard).change(call, stream.get());
      graph.launch(stream);
      require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
      device.fetch();
      const SpeculationOutputs expected = expected_of(call);
      for (int shard = 0; shard < 2; ++shard) {
        EXPECT_EQ(difference(expected, device.at(shard).outputs), "") << "replay " << replay;
      }
    }
  }
}

// --- What is refused -----------------------------------------------------------------------------

TEST(CudaShardedChains, WhatIsNotThereIsNamed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const SpeculationCall call = wide_chain(DraftLaw::logits);
  const std::vector<std::int64_t> boundaries = {0, 4000, 9000};
  const auto message = [&](const auto& change) {
    DeviceChain shard(call, boundaries, 0);
    ShardedChainRequest request = shard.request();
    cuda::Execution execution;
    change(request, execution);
    cuda::ShardedChain refused;
    return cuda::make_sharded_chain(request, shard.result(), execution, refused).message;
  };
  const std::vector<std::int64_t> nine = {0, 4000, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000};
  EXPECT_EQ(message([&](ShardedChainRequest& request, cuda::Execution&) {
              request.boundaries = {nine.data(), 10};
            }),
            "shards is 9; allowed: 1 to 8 on GPUs");
  EXPECT_EQ(message([](ShardedChainRequest& request, cuda::Execution&) {
              request.chain.target.logits.vocab = 3999;
            }),
            "target.logits.vocab is 3999; allowed: 4000, the columns of shard 0");
  const std::vector<std::int32_t> on_host = {1, 2};
  EXPECT_EQ(message([&](ShardedChainRequest& request, cuda::Execution&) {
              request.chain.draft_tokens = {on_host.data(), 2};
            }).rfind("draft_tokens is ", 0),
            0U);
  EXPECT_NE(message([](ShardedChainRequest&, cuda::Execution&) {}).find("workspace"),
            std::string::npos);
}

}  // namespace
}  // namespace fairdraw::suites
