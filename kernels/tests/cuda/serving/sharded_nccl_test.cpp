// Sharded calls on two GPUs exchange their blocks with NCCL and through each other's memory. The
// tokens of these calls must be those of `sample` over whole rows, both in direct calls and in
// graphs; rows that candidates do not decide follow afterwards. Each rank has one thread; the test
// is skipped unless there are two GPUs.
#include "fairdraw/sharded_nccl.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_sharded.h"
#include "harness/adapters/sharded.h"
#include "harness/inputs/dice.h"
#include "tests/cuda/graphs.h"
#include "tests/cuda/serving/device_shard.h"

namespace fairdraw::suites {
namespace {

constexpr int kRanks = 2;

void require_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result));
}

/// A rank, with its GPU, its stream and its number in the communicator.
struct Rank {
  int number;
  ncclComm_t communicator;
  const Stream& stream;
};

/// Runs work(rank) for every GPU, with one thread each.
void run_on_ranks(const std::function<void(const Rank&)>& work) {
  ncclUniqueId id{};
  require_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::vector<std::string> errors(kRanks);
  std::vector<std::thread> threads;
  for (int number = 0; number < kRanks; ++number) {
    threads.emplace_back([&, number] {
      try {
        require(cudaSetDevice(number), "cudaSetDevice");
        ncclComm_t communicator = nullptr;
        require_nccl(ncclCommInitRank(&communicator, kRanks, id, number), "ncclCommInitRank");
        {
          const Stream stream;
          work({number, communicator, stream});
          require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
        }
        require_nccl(ncclCommDestroy(communicator), "ncclCommDestroy");
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(number)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

std::string why_not() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
  if (devices >= kRanks) return {};
  return "needs " + std::to_string(kRanks) + " GPUs, there are " + std::to_string(devices);
}
#define FAIRDRAW_SKIP_WITHOUT_TWO_GPUS()                       \
  if (const std::string reason = why_not(); !reason.empty()) { \
    GTEST_SKIP() << reason;                                    \
  }                                                            \
  static_assert(true, "so that it ends with a semicolon")

/// The number of a row chooses its kind: a row without a filter, a nucleus or top_k among the
/// candidates, a wide nucleus of a flat row, a wide top_k, min_p of a flat row, or a greedy row.
struct Rows {
  static constexpr std::int64_t kRows = 24, kVocab = 128256;
  static constexpr int kKinds = 6;
  static constexpr std::int32_t kWide = 12;  ///< number of rows that the candidates do not decide

  std::vector<float> logits;
  std::vector<float> top_p, min_p;
  std::vector<std::int32_t> top_k;
  std::vector<std::uint64_t> seeds;
  std::vector<std::int64_t> boundaries = harness::equal_boundaries(kVocab, kRanks);
  std::vector<std::int32_t> expected = std::vector<std::int32_t>(kRows);
  std::vector<RowStatus> statuses = std::vector<RowStatus>(kRows);
  SampleRequest request;

  Rows() {
    harness::Dice dice(3);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::int64_t kind = row % kKinds;
      for (std::int64_t id = 0; id < kVocab; ++id) {
        logits.push_back(static_cast<float>(2 * dice.bell()));
      }
      for (int raised = 0; kind == 1 && raised < 64; ++raised) {
        logits[static_cast<std::size_t>(row * kVocab) + dice.below(kVocab)] += 12.0F;
      }
      top_p.push_back(kind == 1 || kind == 2 ? 0.9F : 1.0F);
      top_k.push_back(kind == 1 ? 50 : kind == 3 ? 1000 : kind == 5 ? 1 : 0);
      min_p.push_back(kind == 4 ? 0.02F : 0.0F);
      seeds.push_back(dice.bits());
    }
    request.logits = {logits.data(), DType::float32, kRows, kVocab, kVocab};
    request.top_k = {top_k.data(), kRows};
    request.top_p = {top_p.data(), kRows};
    request.min_p = {min_p.data(), kRows};
    request.seed = {seeds.data(), kRows};
    SampleResult result;
    result.tokens = {expected.data(), kRows};
    result.statuses = {statuses.data(), kRows};
    const Error error = sample(request, result);
    if (error) throw std::runtime_error(error.message);
  }

  ShardedRequest of(int rank) const {
    const auto shard = static_cast<std::size_t>(rank);
    ShardedRequest part;
    part.rows = request;
    part.rows.logits.data = logits.data() + boundaries[shard];
    part.rows.logits.vocab = boundaries[shard + 1] - boundaries[shard];
    part.boundaries = {boundaries.data(), kRanks + 1};
    part.shard = rank;
    return part;
  }
};

TEST(CudaShardedNccl, TokensAreThoseOfWholeRows) {
  FAIRDRAW_SKIP_WITHOUT_TWO_GPUS();
  const Rows rows;
  run_on_ranks([&](const Rank& rank) {
    DeviceShard shard(rows.of(rank.number), /*wants_mask=*/true);
    const Error begun = shard.begin(rank.stream.get());
    ASSERT_FALSE(begun) << begun.message;
    const Error error = cuda::sample_sharded(shard.call, {}, rank.communicator, rank.stream.get());
    ASSERT_FALSE(error) << error.message;
    EXPECT_EQ(shard.undecided(), Rows::kWide);
    const Error gathered =
        cuda::continue_sharded(shard.call, Rows::kWide, rank.communicator, rank.stream.get());
    ASSERT_FALSE(gathered) << gathered.message;
    EXPECT_EQ(shard.undecided(), 0);
    shard.fetch();
    EXPECT_EQ(shard.tokens, rows.expected) << "rank " << rank.number;
    EXPECT_EQ(shard.statuses, rows.statuses) << "rank " << rank.number;
  });
}

TEST(CudaShardedNccl, TooFewExchangesGoOnWhereTheyWere) {
  FAIRDRAW_SKIP_WITHOUT_TWO_GPUS();
  const Rows rows;
  run_on_ranks([&](const Rank& rank) {
    DeviceShard shard(rows.of(rank.number), /*wants_mask=*/false);
    const Error begun = shard.begin(rank.stream.get());
    ASSERT_FALSE(begun) << begun.message;
    ASSERT_FALSE(
        cuda::sample_sharded(shard.call, {.tokens = false}, rank.communicator, rank.stream.get()));
    // The candidates do not decide rows without filters, either.
    EXPECT_EQ(shard.undecided(), Rows::kWide + Rows::kRows / Rows::kKinds);
    // Each iteration decides one group of rows.
    for (std::int32_t left = shard.undecided(); left > 0;) {
      ASSERT_FALSE(cuda::continue_sharded(shard.call, 1, rank.communicator, rank.stream.get()));
      const std::int32_t now = shard.undecided();
      ASSERT_LT(now, left);
      left = now;
    }
    shard.fetch();
    EXPECT_EQ(shard.tokens, rows.expected) << "rank " << rank.number;
  });
}

TEST(CudaShardedNccl, GraphsOfACallAreReplayed) {
  FAIRDRAW_SKIP_WITHOUT_TWO_GPUS();
  const Rows rows;
  run_on_ranks([&](const Rank& rank) {
    DeviceShard shard(rows.of(rank.number), /*wants_mask=*/false);
    const Error begun = shard.begin(rank.stream.get());
    ASSERT_FALSE(begun) << begun.message;
    // The call runs once before its capture, because NCCL connects the ranks when they first send.
    ASSERT_FALSE(cuda::sample_sharded(shard.call, {}, rank.communicator, rank.stream.get()));
    require(cudaStreamSynchronize(rank.stream.get()), "cudaStreamSynchronize");
    Graph graph;
    require(cudaStreamBeginCapture(rank.stream.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
    const Error error = cuda::sample_sharded(shard.call, {}, rank.communicator, rank.stream.get());
    graph.end(rank.stream);
    ASSERT_FALSE(error) << error.message;
    for (int replay = 0; replay < 3; ++replay) graph.launch(rank.stream);
    EXPECT_EQ(shard.undecided(), Rows::kWide);
    ASSERT_FALSE(
        cuda::continue_sharded(shard.call, Rows::kWide, rank.communicator, rank.stream.get()));
    EXPECT_EQ(shard.undecided(), 0);
    shard.fetch();
    EXPECT_EQ(shard.tokens, rows.expected) << "rank " << rank.number;
  });
}

// --- Through each other's memory -----------------------------------------------------------------

/// Memory of both ranks that each rank can address.
class PeerMemory {
 public:
  /// Allocates this rank's memory; the rank's thread calls this function. Returns when both ranks
  /// have allocated their memory.
  cuda::ShardedPeers make(const Rank& rank, std::int64_t bytes, std::int64_t most_rows) {
    const int other = 1 - rank.number;
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(other, 0);
    if (enabled == cudaErrorPeerAccessAlreadyEnabled) static_cast<void>(cudaGetLastError());
    if (enabled != cudaErrorPeerAccessAlreadyEnabled)
      require(enabled, "cudaDeviceEnablePeerAccess");
    DeviceBlock& mine = blocks_[rank.number];
    mine = DeviceBlock(static_cast<std::size_t>(bytes));
    require(cudaMemset(mine.data(), 0, mine.size()), "cudaMemset");
    require(cudaDeviceSynchronize(), "cudaMemset");
    meet();
    cuda::ShardedPeers peers;
    peers.bytes = bytes;
    peers.most_rows = most_rows;
    for (int number = 0; number < kRanks; ++number) {
      peers.memory[number] = reinterpret_cast<std::byte*>(blocks_[number].data());
    }
    return peers;
  }
  /// Waits until both ranks call this function, so that no memory is allocated or freed while a
  /// kernel waits for the other GPU.
  void meet() { both_.arrive_and_wait(); }

 private:
  DeviceBlock blocks_[kRanks];
  std::barrier<> both_{kRanks};
};

TEST(CudaShardedPeers, TokensAreThoseOfWholeRows) {
  FAIRDRAW_SKIP_WITHOUT_TWO_GPUS();
  const Rows rows;
  PeerMemory memory;
  run_on_ranks([&](const Rank& rank) {
    DeviceShard shard(rows.of(rank.number), /*wants_mask=*/true);
    const Error begun = shard.begin(rank.stream.get());
    ASSERT_FALSE(begun) << begun.message;
    const std::int64_t bytes = cuda::peer_bytes(shard.call, Rows::kRows);
    const Error used = cuda::use_peers(shard.call, memory.make(rank, bytes, Rows::kRows));
    ASSERT_FALSE(used) << used.message;
    // Many calls are enqueued without a wait on the host, so that the ranks drift as far apart as
    // possible.
    constexpr int kCalls = 100;
    for (int call = 0; call < kCalls; ++call) {
      Error error = cuda::sample_sharded(shard.call, {});
      ASSERT_FALSE(error) << error.message;
      error = cuda::continue_sharded(shard.call, Rows::kWide);
      ASSERT_FALSE(error) << error.message;
    }
    EXPECT_EQ(shard.undecided(), 0);
    memory.meet();
    shard.fetch();
    EXPECT_EQ(shard.tokens, rows.expected) << "rank " << rank.number;
    EXPECT_EQ(shard.statuses, rows.statuses) << "rank " << rank.number;
    memory.meet();
  });
}

/// A batch of all rows and a batch of few rows alternate in one exchange memory, without a wait on
/// the host.
TEST(CudaShardedPeers, BatchesOfOtherSizesShareAMemory) {
  FAIRDRAW_SKIP_WITHOUT_TWO_GPUS();
  constexpr std::int64_t kFew = 3;
  const Rows rows;
  PeerMemory memory;
  run_on_ranks([&](const Rank& rank) {
    DeviceShard all(rows.of(rank.number), /*wants_mask=*/false);
    ShardedRequest of_few = rows.of(rank.number);
    of_few.rows.logits.rows = kFew;
    for (auto* parameter : {&of_few.rows.top_p, &of_few.rows.min_p}) parameter->values.size = kFew;
    of_few.rows.top_k.values.size = of_few.rows.seed.values.size = kFew;
    DeviceShard few(of_few, /*wants_mask=*/false);
    ASSERT_FALSE(all.begin(rank.stream.get()));
    ASSERT_FALSE(few.begin(rank.stream.get()));
    const std::int64_t bytes = cuda::peer_bytes(all.call, Rows::kRows);
    const cuda::ShardedPeers peers = memory.make(rank, bytes, Rows::kRows);
    ASSERT_FALSE(cuda::use_peers(all.call, peers));
    ASSERT_FALSE(cuda::use_peers(few.call, peers));
    constexpr int kCalls = 90;
    for (int call = 0; call < kCalls; ++call) {
      const bool of_all = call % 3 == 2;
      const cuda::ShardedCall& turn = of_all ? all.call : few.call;
      ASSERT_FALSE(cuda::sample_sharded(turn, {}));
      ASSERT_FALSE(cuda::continue_sharded(turn, of_all ? Rows::kWide : 1));
    }
    EXPECT_EQ(all.undecided() + few.undecided(), 0);
    memory.meet();
    all.fetch();
    few.fetch();
    EXPECT_EQ(all.tokens, rows.expected) << "rank " << rank.number;
    EXPECT_TRUE(std::equal(few.tokens.begin(), few.tokens.end(), rows.expected.begin()));
    memory.meet();
  });
}

TEST(CudaShardedPeers, GraphsOfACallAreReplayed) {
  FAIRDRAW_SKIP_WITHOUT_TWO_GPUS();
  const Rows rows;
  PeerMemory memory;
  run_on_ranks([&](const Rank& rank) {
    DeviceShard shard(rows.of(rank.number), /*wants_mask=*/false);
    const Error begun = shard.begin(rank.stream.get());
    ASSERT_FALSE(begun) << begun.message;
    const std::int64_t bytes = cuda::peer_bytes(shard.call, Rows::kRows);
    ASSERT_FALSE(cuda::use_peers(shard.call, memory.make(rank, bytes, Rows::kRows)));
    Graph graph;
    require(cudaStreamBeginCapture(rank.stream.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
    const Error error = cuda::sample_sharded(shard.call, {});
    graph.end(rank.stream);
    memory.meet();
    ASSERT_FALSE(error) << error.message;
    constexpr int kReplays = 50;
    for (int replay = 0; replay < kReplays; ++replay) graph.launch(rank.stream);
    EXPECT_EQ(shard.undecided(), Rows::kWide);
    ASSERT_FALSE(cuda::continue_sharded(shard.call, Rows::kWide));
    EXPECT_EQ(shard.undecided(), 0);
    memory.meet();
    shard.fetch();
    EXPECT_EQ(shard.tokens, rows.expected) << "rank " << rank.number;
    memory.meet();
  });
}

}  // namespace
}  // namespace fairdraw::suites
