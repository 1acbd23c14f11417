// Chains of drafted tokens over sharded rows in device memory: tokens, accepted drafts and statuses
// of every shard are those of verify_chain over the whole rows, bit for bit. All shards have the
// same GPU here; what one sends is copied to the others.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "fairdraw/cuda_sharded_speculation.h"
#include "harness/inputs/dice.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/device_chains.h"
#include "tests/cuda/graphs.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {
namespace {

using cuda::ChainExchange;
using harness::Dice;

/// Rounds that are enqueued at once; more of them follow where rows are left.
constexpr int kRounds = 2;

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

SpeculationOutputs expected_of(const SpeculationCall& call) {
  HostArrays host;
  SpeculationOutputs expected(call, call.max_draft);
  const Error error =
      verify_chain(chain_in(call, host), speculation_result_in<VerifyChainResult>(expected, host),
                   {CpuTarget::best, 1});
  EXPECT_FALSE(error) << error.message;
  return expected;
}

void compare(const SpeculationCall& call, const std::vector<std::int64_t>& boundaries,
             const std::string& where, Met& met) {
  const SpeculationOutputs expected = expected_of(call);
  DeviceChains device(call, boundaries);
  Error error = device.begin();
  ASSERT_FALSE(error) << error.message << ", " << where;
  error = device.run(0, kRounds);
  ASSERT_FALSE(error) << error.message << ", " << where;
  // A row that waits for tokens when its first ones have gone by needs no round of its own.
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
    compare(random_speculation_call(number, vocab), boundaries, named(number, boundaries), met);
  }
  met.expect_all({RowStatus::ok, RowStatus::inactive, RowStatus::nan_input,
                  RowStatus::infinite_input, RowStatus::no_allowed_token, RowStatus::invalid_top_p,
                  RowStatus::index_out_of_range, RowStatus::invalid_draft_length,
                  RowStatus::impossible_draft});
  for (const std::int64_t count : met.laws) EXPECT_GT(count, is_reduced() ? -1 : 0);
}

}  // namespace
}  // namespace fairdraw::suites
