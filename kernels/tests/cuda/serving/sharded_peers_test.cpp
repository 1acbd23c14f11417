// Sharded calls exchange blocks through memory that all ranks can address, on one GPU. The tests
// cover a call of one rank, which waits for no other kernel; calls of several shapes in one memory;
// and arguments that are rejected by name.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "fairdraw/cuda_sharded.h"
#include "fairdraw/sample.h"
#include "harness/inputs/dice.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/serving/device_shards.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;

/// Rows of six kinds: without filter, with survivors among the candidates, with survivors beyond
/// the candidates, greedy, padding, and with a nucleus.
struct RowsOfSixKinds {
  static constexpr std::int64_t kRows = 6;

  RowsOfSixKinds(std::int64_t vocab, std::int32_t samples, std::uint64_t seed)
      : tokens(static_cast<std::size_t>(kRows * samples), -77) {
    Dice dice(seed);
    for (std::int64_t i = 0; i < kRows * vocab; ++i) {
      logits.push_back(static_cast<float>(2 * dice.bell()));
    }
    request.logits = {logits.data(), DType::float32, kRows, vocab, vocab};
    request.top_k = {top_k.data(), kRows};
    request.top_p = {top_p.data(), kRows};
    request.seed = {seeds.data(), kRows};
    request.active = {active.data(), kRows};
    request.num_samples = samples;
    SampleResult result;
    result.tokens = {tokens.data(), kRows * samples};
    const Error error = sample(request, result, {CpuTarget::best, 1});
    if (error) throw std::runtime_error(error.message);
  }

  /// Adds the shards of the call, which is split at the boundaries, to the device.
  void add_to(DeviceShards& shards, const std::vector<std::int64_t>& boundaries) const {
    for (std::size_t shard = 0; shard + 1 < boundaries.size(); ++shard) {
      ShardedRequest part;
      part.rows = request;
      part.rows.logits.data = logits.data() + boundaries[shard];
      part.rows.logits.vocab = boundaries[shard + 1] - boundaries[shard];
      part.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
      part.shard = static_cast<std::int32_t>(shard);
      shards.add(part, /*wants_mask=*/false, {}, ShardWants::tokens);
    }
  }

  std::vector<float> logits;
  std::vector<std::int32_t> top_k = {0, 50, 1000, 1, 50, 0};
  std::vector<float> top_p = {1, 1, 1, 1, 1, 0.9F};
  std::vector<std::uint64_t> seeds = {1, 2, 3, 4, 5, 6};
  std::vector<std::uint8_t> active = {1, 1, 1, 1, 0, 1};
  std::vector<std::int32_t> tokens;  ///< the CPU's tokens
  SampleRequest request;
};

/// With one rank, no kernel waits for another kernel, so one GPU can test the code that several
/// ranks run concurrently.
TEST(CudaSharded, OneRankExchangesWithItself) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const std::int64_t vocab : {200, 9000}) {
    for (const std::int32_t samples : {1, 65}) {
      const RowsOfSixKinds rows(vocab, samples, 17);
      const std::vector<std::int64_t> boundaries = {0, vocab};
      DeviceShards shards;
      rows.add_to(shards, boundaries);
      ASSERT_FALSE(shards.begin());
      EXPECT_NE(cuda::sample_sharded(shards.at(0).call, {}).message.find("peers is not set"),
                std::string::npos);
      EXPECT_NE(cuda::continue_sharded(shards.at(0).call, 1).message.find("peers is not set"),
                std::string::npos);
      ASSERT_FALSE(shards.use_peers(RowsOfSixKinds::kRows));
      for (int call = 0; call < 3; ++call) {
        Error error = cuda::sample_sharded(shards.at(0).call, {});
        ASSERT_FALSE(error) << error.message;
        // number of rows whose survivors are not all among the candidates
        const std::int32_t wide = vocab > 1000 ? 1 : 0;
        EXPECT_EQ(shards.undecided(), wide);
        error = cuda::continue_sharded(shards.at(0).call, wide);
        ASSERT_FALSE(error) << error.message;
      }
      EXPECT_EQ(shards.undecided(), 0);
      shards.fetch();
      EXPECT_EQ(shards.at(0).tokens, rows.tokens) << vocab << " tokens, " << samples << " samples";
    }
  }
}

/// The outputs name rows by `indices`: many outputs for one row, none for another, and some outputs
/// that name no row.
TEST(CudaSharded, OneRankExchangesOutputsThatNameRows) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kVocab = 9000;
  constexpr std::int32_t kSamples = 3;
  RowsOfSixKinds rows(kVocab, kSamples, 20);
  std::vector<std::int32_t> indices = {0, 6, 3, 2, -1, 4, 5};
  std::vector<std::uint64_t> seeds;
  for (int many = 0; many < 40; ++many) indices.push_back(many % 2);  // > 64 tokens of a row
  for (std::size_t output = 0; output < indices.size(); ++output) seeds.push_back(100 + output);
  const auto outputs = static_cast<std::int64_t>(indices.size());
  rows.request.indices = {indices.data(), outputs};
  rows.request.seed = {seeds.data(), outputs};
  std::vector<std::int32_t> expected(static_cast<std::size_t>(outputs * kSamples));
  std::vector<RowStatus> statuses(indices.size());
  SampleResult result;
  result.tokens = {expected.data(), outputs * kSamples};
  result.statuses = {statuses.data(), outputs};
  ASSERT_FALSE(sample(rows.request, result, {CpuTarget::best, 1}));
  ASSERT_EQ(statuses[4], RowStatus::index_out_of_range);
  const std::vector<std::int64_t> boundaries = {0, kVocab};
  DeviceShards shards;
  rows.add_to(shards, boundaries);
  ASSERT_FALSE(shards.begin());
  ASSERT_FALSE(shards.use_peers(RowsOfSixKinds::kRows));
  for (int call = 0; call < 2; ++call) {
    ASSERT_FALSE(cuda::sample_sharded(shards.at(0).call, {}));
    ASSERT_FALSE(cuda::continue_sharded(shards.at(0).call, shards.undecided()));
  }
  EXPECT_EQ(shards.undecided(), 0);
  shards.fetch();
  EXPECT_EQ(shards.at(0).tokens, expected);
  EXPECT_EQ(shards.at(0).statuses, statuses);
}

TEST(CudaSharded, OfNoRowsNoneIsUndecidedAndOutputsFail) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kVocab = 20;
  const std::vector<std::int64_t> boundaries = {0, kVocab};
  const std::vector<float> logits(kVocab);
  const std::vector<std::int32_t> indices = {0};
  std::vector<std::int32_t> tokens = {-77};
  std::vector<std::byte> workspace;
  DeviceArrays arrays;
  ShardedRequest request;
  request.rows.logits = {arrays.in(logits), DType::float32, 0, kVocab, kVocab};
  request.rows.indices = {arrays.in(indices), 1};
  request.boundaries = {boundaries.data(), 2};
  SampleResult result;
  result.tokens = {arrays.out(tokens), 1};
  workspace.assign(static_cast<std::size_t>(cuda::workspace_bytes(request, result)),
                   std::byte{0xcd});
  cuda::Execution execution;
  execution.workspace = arrays.out(workspace);
  execution.workspace_bytes = static_cast<std::int64_t>(workspace.size());
  cuda::ShardedCall call;
  const Error error = cuda::make_sharded_call(request, result, execution, call);
  ASSERT_FALSE(error) << error.message;
  ASSERT_FALSE(cuda::sharded_send(call, cuda::ShardedExchange::summary));
  ASSERT_FALSE(cuda::sharded_receive(call, cuda::ShardedExchange::summary));
  std::int32_t rows = -77;
  require(cudaMemcpy(&rows, call.undecided(), sizeof(rows), cudaMemcpyDeviceToHost), "cudaMemcpy");
  EXPECT_EQ(rows, 0);
  arrays.fetch();
  EXPECT_EQ(tokens[0], -1);
}

/// Sharded calls of different shapes alternate in one exchange memory, so that their blocks have
/// different offsets.
TEST(CudaSharded, CallsOfOtherShapesShareAMemory) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::vector<std::int64_t> of_large = {0, 4500, 9000}, of_small = {0, 400, 700};
  const RowsOfSixKinds large(9000, 3, 18), small(700, 1, 19);
  DeviceShards larger, smaller;
  large.add_to(larger, of_large);
  small.add_to(smaller, of_small);
  ASSERT_FALSE(larger.begin());
  ASSERT_FALSE(smaller.begin());
  ASSERT_FALSE(larger.use_peers(RowsOfSixKinds::kRows));
  ASSERT_FALSE(smaller.use_peers_of(larger));
  for (int call = 0; call < 6; ++call) {
    DeviceShards& shards = call % 3 == 2 ? larger : smaller;
    ASSERT_FALSE(shards.run());
  }
  for (DeviceShards* shards : {&larger, &smaller}) {
    EXPECT_EQ(shards->undecided(), 0);
    shards->fetch();
    for (int shard = 0; shard < 2; ++shard) {
      EXPECT_EQ(shards->at(shard).tokens, (shards == &larger ? large : small).tokens);
    }
  }
}

TEST(CudaSharded, PeersOutOfRangeAreNamed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const std::vector<float> logits(1200, 0.5F);
  const std::vector<std::int64_t> boundaries = {0, 600};
  ShardedRequest request;
  request.rows.logits = {logits.data(), DType::float32, 2, 600, 600};
  request.boundaries = {boundaries.data(), 2};
  DeviceShard shard(request, /*wants_mask=*/false);
  ASSERT_FALSE(shard.begin());
  DeviceArrays arrays;
  const std::int64_t needed = cuda::peer_bytes(shard.call, 2);
  std::vector<std::byte> memory(static_cast<std::size_t>(needed));
  const auto message = [&](const auto& change) {
    cuda::ShardedPeers peers;
    peers.most_rows = 2;
    peers.bytes = needed;
    peers.memory[0] = arrays.out(memory);
    change(peers);
    return cuda::use_peers(shard.call, peers).message;
  };
  EXPECT_EQ(message([](cuda::ShardedPeers& peers) { peers.most_rows = 1; }),
            "peers.most_rows is 1; allowed: 2, the call's rows, to 2147483647");
  EXPECT_NE(message([](cuda::ShardedPeers& peers) {
              peers.most_rows = std::int64_t{1} << 31U;
            }).find("peers.most_rows is 2147483648"),
            std::string::npos);
  EXPECT_EQ(
      message([&](cuda::ShardedPeers& peers) { peers.bytes = needed - 1; }),
      "peers.bytes is " + std::to_string(needed - 1) + "; allowed: >= " + std::to_string(needed));
  EXPECT_NE(message([](cuda::ShardedPeers& peers) {
              peers.memory[0] = nullptr;
            }).find("peers.memory[0] is null"),
            std::string::npos);
  EXPECT_NE(message([](cuda::ShardedPeers& peers) {
              peers.memory[0] += 4;
            }).find("peers.memory[0] is not at a multiple of 16 bytes"),
            std::string::npos);
  EXPECT_EQ(message([](cuda::ShardedPeers&) {}), "");
}

}  // namespace
}  // namespace fairdraw::suites
