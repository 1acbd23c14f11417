// The program compares sharded sampling on two GPUs with the methods of other engines, in one run:
// gathering the logits, and splitting the batch. Sharded sampling exchanges its blocks through the
// other GPU's memory (peers) or by NCCL. The program reports microseconds of CUDA graphs with a
// cold L2 cache, and the bytes that all ranks send per row. The tokens of all methods must be
// equal.
//
//   sharded_benchmark [REPETITIONS]
//
// Exit codes: 0 if all tokens are equal; 1 if some differ or something failed; 77 if there are
// fewer than two GPUs.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_memory.h"
#include "fairdraw/cuda_sharded.h"
#include "fairdraw/sharded_nccl.h"
#include "harness/inputs/dice.h"
#include "suites/benchmarks/cuda_timing.h"

namespace fairdraw::suites {
namespace {

constexpr int kExitSkipped = 77;
constexpr int kRanks = 2;
constexpr std::int64_t kVocab = 128256;
constexpr std::int64_t kColumns = kVocab / kRanks;
constexpr std::int64_t kMaxRows = 256;
constexpr std::int64_t kBatches[] = {1, 8, 64, 256};

struct Filters {
  const char* name;
  std::int32_t top_k;
  float top_p, min_p;
  cuda::ShardedPlan plan;  ///< a plan with the exchanges that usual rows need
};
constexpr Filters kFilters[] = {{"none", 0, 1.0F, 0.0F, {true}},
                                {"k50 p.9", 50, 0.9F, 0.0F, {false}},
                                {"min_p .05", 0, 1.0F, 0.05F, {false}}};

void require_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(fmt::format("{}: {}", what, ncclGetErrorString(result)));
}

/// Returns rows shaped like those of a language model: logits of N(0, 2^2), and 64 raised tokens
/// with most of the mass.
std::vector<float> peaked_rows() {
  harness::Dice dice(7);
  std::vector<float> logits(static_cast<std::size_t>(kMaxRows * kVocab));
  for (float& x : logits) x = static_cast<float>(2 * dice.bell());
  for (std::int64_t row = 0; row < kMaxRows; ++row) {
    for (int raised = 0; raised < 64; ++raised) {
      logits[static_cast<std::size_t>(row * kVocab) + dice.below(kVocab)] +=
          static_cast<float>(10 + 6 * dice.unit());
    }
  }
  return logits;
}

/// The microseconds of one method, and its tokens.
struct Measured {
  double microseconds = 0;
  std::int64_t bytes_a_row = 0;
  std::int32_t undecided = 0;
  std::vector<std::int32_t> tokens;
};

/// Data and a barrier that both ranks use before a call.
struct Meeting {
  std::barrier<> both{kRanks};
  std::byte* memory[kRanks] = {};
};

enum class Transport { nccl, peers };

class Rank {
 public:
  Rank(int number, ncclComm_t communicator, const std::vector<float>& logits, Meeting& meeting)
      : number_(number), communicator_(communicator), host_(meeting) {
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(1 - number, 0);
    // not an error: NCCL has already enabled peer access
    if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
      static_cast<void>(cudaGetLastError());
    } else {
      expect_success(enabled, "access to the other GPU's memory");
    }
    expect_success(stream_.create(), "a stream");
    const std::int64_t of_row = kColumns * kFloat;
    expect_success(local_.reserve(kMaxRows * of_row), "logits");
    for (std::int64_t row = 0; row < kMaxRows; ++row) {
      expect_success(local_.upload(row * of_row, logits.data() + row * kVocab + number * kColumns,
                                   of_row, stream_),
                     "logits");
    }
    for (cuda::DeviceBuffer* rows : {&gathered_, &whole_}) {
      expect_success(rows->reserve(kMaxRows * kVocab * kFloat), "whole rows");
    }
    for (std::uint64_t row = 0; row < kMaxRows; ++row) seed_values_.push_back(row);
    expect_success(seeds_.reserve(kMaxRows * 8), "seeds");
    expect_success(seeds_.upload(0, seed_values_.data(), kMaxRows * 8, stream_), "seeds");
    expect_success(tokens_.reserve(kMaxRows * 4), "tokens");
    expect_success(some_tokens_.reserve(kMaxRows * 4), "tokens");
    timer_ = std::make_unique<ColdTimer>(stream_);
    expect_success(meeting_.reserve(kMeetingBytes), "a meeting");
    expect_success(stream_.synchronise(), "uploads");
  }

  Measured sharded(std::int64_t rows, const Filters& filters, Transport transport,
                   int repetitions) {
    const cuda::ShardedPlan& plan = filters.plan;
    const std::int64_t boundaries[] = {0, kColumns, kVocab};
    ShardedRequest request;
    request.rows = request_of(local_.data(), rows, kColumns, filters, 0);
    request.boundaries = {boundaries, kRanks + 1};
    request.shard = number_;
    SampleResult result;
    result.tokens = {static_cast<std::int32_t*>(tokens_.data()), rows};
    cuda::Execution execution;
    execution.stream = stream_.get();
    execution.workspace_bytes = cuda::workspace_bytes(request, result);
    expect_success(workspace_.reserve(execution.workspace_bytes), "workspace");
    execution.workspace = workspace_.data();
    cuda::ShardedCall call;
    expect_success(cuda::make_sharded_call(request, result, execution, call), "a sharded call");
    if (transport == Transport::peers) use_peers(call, rows);
    Measured measured = time(repetitions, [&] {
      expect_success(transport == Transport::peers
                         ? cuda::sample_sharded(call, plan)
                         : cuda::sample_sharded(call, plan, communicator_, handle(stream_)),
                     "sample_sharded");
    });
    measured.tokens = read_tokens(rows);
    const auto bytes = [&](cuda::ShardedExchange exchange) {
      return kRanks * call.bytes(exchange);
    };
    measured.bytes_a_row =
        (bytes(cuda::ShardedExchange::summary) +
         (plan.tokens ? bytes(cuda::ShardedExchange::tokens) + bytes(cuda::ShardedExchange::sums)
                      : 0)) /
        rows;
    expect_success(cudaMemcpy(&measured.undecided, call.undecided(), sizeof(std::int32_t),
                              cudaMemcpyDeviceToHost),
                   "rows that are left");
    return measured;
  }

  /// Measures the method that gathers float32 logits to whole rows, which every rank samples.
  Measured gathered(std::int64_t rows, const Filters& filters, int repetitions) {
    const SampleRequest request = request_of(whole_.data(), rows, kVocab, filters, 0);
    const cuda::Execution execution = execution_of(request);
    SampleResult result;
    result.tokens = {static_cast<std::int32_t*>(tokens_.data()), rows};
    Measured measured = time(repetitions, [&] {
      require_nccl(
          ncclAllGather(local_.data(), gathered_.data(), static_cast<std::size_t>(rows * kColumns),
                        ncclFloat, communicator_, handle(stream_)),
          "ncclAllGather");
      make_whole(rows);
      expect_success(cuda::sample(request, result, execution), "sample");
    });
    measured.tokens = read_tokens(rows);
    measured.bytes_a_row = kVocab * kFloat;
    return measured;
  }

  /// Measures the method that splits the batch: each rank gets half of the rows whole and samples
  /// them, and then all ranks get the tokens.
  Measured by_batch(std::int64_t rows, const Filters& filters, int repetitions) {
    const std::int64_t mine = rows / kRanks;
    const SampleRequest request = request_of(whole_.data(), mine, kVocab, filters, number_ * mine);
    const cuda::Execution execution = execution_of(request);
    SampleResult result;
    result.tokens = {static_cast<std::int32_t*>(some_tokens_.data()), mine};
    const auto values = static_cast<std::size_t>(mine * kColumns);
    Measured measured = time(repetitions, [&] {
      require_nccl(ncclGroupStart(), "ncclGroupStart");
      for (int peer = 0; peer < kRanks; ++peer) {
        const auto* from = static_cast<const float*>(local_.data());
        auto* to = static_cast<float*>(gathered_.data());
        require_nccl(ncclSend(from + static_cast<std::size_t>(peer) * values, values, ncclFloat,
                              peer, communicator_, handle(stream_)),
                     "ncclSend");
        require_nccl(ncclRecv(to + static_cast<std::size_t>(peer) * values, values, ncclFloat, peer,
                              communicator_, handle(stream_)),
                     "ncclRecv");
      }
      require_nccl(ncclGroupEnd(), "ncclGroupEnd");
      make_whole(mine);
      expect_success(cuda::sample(request, result, execution), "sample");
      require_nccl(
          ncclAllGather(some_tokens_.data(), tokens_.data(), static_cast<std::size_t>(mine),
                        ncclInt32, communicator_, handle(stream_)),
          "ncclAllGather");
    });
    measured.tokens = read_tokens(rows);
    measured.bytes_a_row = kVocab * kFloat / kRanks;
    return measured;
  }

 private:
  /// Allocates memory that both ranks share, and fills it with zeros.
  void use_peers(cuda::ShardedCall& call, std::int64_t rows) {
    cuda::ShardedPeers peers;
    peers.most_rows = rows;
    peers.bytes = cuda::peer_bytes(call, rows);
    expect_success(peer_memory_.reserve(peers.bytes), "memory of peers");
    expect_success(peer_memory_.fill(0, 0, peers.bytes, stream_), "memory of peers");
    expect_success(stream_.synchronise(), "memory of peers");
    host_.memory[number_] = static_cast<std::byte*>(peer_memory_.data());
    // Both ranks allocate before this point, because an allocation can wait for a GPU on which a
    // kernel of the other rank waits.
    host_.both.arrive_and_wait();
    std::copy_n(host_.memory, kRanks, peers.memory);
    expect_success(cuda::use_peers(call, peers), "use_peers");
  }

  static constexpr std::int64_t kFloat = sizeof(float);
  static constexpr std::int64_t kMeetingBytes = 512;

  SampleRequest request_of(const void* logits, std::int64_t rows, std::int64_t vocab,
                           const Filters& filters, std::int64_t first_seed) const {
    SampleRequest request;
    request.logits = {logits, DType::float32, rows, vocab, vocab};
    request.top_k = filters.top_k;
    request.top_p = filters.top_p;
    request.min_p = filters.min_p;
    request.seed = {static_cast<const std::uint64_t*>(seeds_.data()) + first_seed, rows};
    return request;
  }

  cuda::Execution execution_of(const SampleRequest& request) {
    cuda::Execution execution;
    execution.stream = stream_.get();
    execution.workspace_bytes = cuda::workspace_bytes(request);
    expect_success(workspace_.reserve(execution.workspace_bytes), "workspace");
    execution.workspace = workspace_.data();
    return execution;
  }

  /// Rearranges an array from [ranks, rows, columns] to [rows, vocabulary].
  void make_whole(std::int64_t rows) {
    constexpr std::size_t kWidth = kColumns * kFloat;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      expect_success(
          cudaMemcpy2DAsync(static_cast<float*>(whole_.data()) + rank * kColumns, kRanks * kWidth,
                            static_cast<const float*>(gathered_.data()) + rank * rows * kColumns,
                            kWidth, kWidth, static_cast<std::size_t>(rows),
                            cudaMemcpyDeviceToDevice, handle(stream_)),
          "whole rows");
    }
  }

  /// Times a call. The ranks synchronise before each replay, outside the events, so that the
  /// measured part does not wait for the other rank's flush of the L2 cache.
  Measured time(int repetitions, const std::function<void()>& call) {
    call();  // a first call, because NCCL connects the ranks when they first send
    expect_success(stream_.synchronise(), "a call");
    const CapturedCall captured(stream_, call);
    const auto meet = [this] {
      require_nccl(ncclAllGather(static_cast<std::byte*>(meeting_.data()) + 128, meeting_.data(), 8,
                                 ncclUint8, communicator_, handle(stream_)),
                   "a meeting");
    };
    Measured measured;
    measured.microseconds = timer_->medians({{&captured, {}, meet}}, repetitions).front();
    return measured;
  }

  std::vector<std::int32_t> read_tokens(std::int64_t rows) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows));
    expect_success(tokens_.download(tokens.data(), 0, rows * 4, stream_), "tokens");
    expect_success(stream_.synchronise(), "tokens");
    return tokens;
  }

  int number_;
  ncclComm_t communicator_;
  Meeting& host_;
  cuda::Stream stream_;
  std::unique_ptr<ColdTimer> timer_;
  cuda::DeviceBuffer local_, gathered_, whole_, seeds_, tokens_, some_tokens_, workspace_, meeting_,
      peer_memory_;
  std::vector<std::uint64_t> seed_values_;
};

struct Line {
  std::int64_t rows;
  const Filters* filters;
  Measured peers, nccl, gathered, by_batch;
};

/// Measures all lines of the table on one rank. Both ranks make the same calls in the same order.
void measure(Rank& rank, int repetitions, std::vector<Line>& lines) {
  for (const std::int64_t rows : kBatches) {
    for (const Filters& filters : kFilters) {
      Line line{rows, &filters, {}, {}, {}, {}};
      line.peers = rank.sharded(rows, filters, Transport::peers, repetitions);
      line.nccl = rank.sharded(rows, filters, Transport::nccl, repetitions);
      line.gathered = rank.gathered(rows, filters, repetitions);
      if (rows >= kRanks) line.by_batch = rank.by_batch(rows, filters, repetitions);
      lines.push_back(std::move(line));
    }
  }
}

bool print(const std::vector<Line>& lines) {
  bool equal = true;
  fmt::print("rows filters      peers      nccl    gather  by batch  gather/peers  bytes a row\n");
  for (const Line& line : lines) {
    fmt::print(
        "{:4} {:10} {:8.1f} {:9.1f} {:9.1f} {:>9} {:13.2f} {:12}\n", line.rows, line.filters->name,
        line.peers.microseconds, line.nccl.microseconds, line.gathered.microseconds,
        line.by_batch.tokens.empty() ? "-" : fmt::format("{:.1f}", line.by_batch.microseconds),
        line.gathered.microseconds / line.peers.microseconds, line.peers.bytes_a_row);
    const bool same =
        line.peers.tokens == line.gathered.tokens && line.nccl.tokens == line.gathered.tokens &&
        (line.by_batch.tokens.empty() || line.by_batch.tokens == line.gathered.tokens);
    if (!same || line.peers.undecided != 0 || line.nccl.undecided != 0) {
      fmt::print("     tokens differ, or rows are left: {}, {}\n", line.peers.undecided,
                 line.nccl.undecided);
      equal = false;
    }
  }
  fmt::print("bars: gather/peers at least 1.5 at 1 row, 3.5 at 64, 6 at 256; 8192 bytes per row\n");
  return equal;
}

int run(int repetitions) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < kRanks) {
    fmt::print("skipped: needs {} GPUs, there are {}\n", kRanks, devices);
    return kExitSkipped;
  }
  const std::vector<float> logits = peaked_rows();
  ncclUniqueId id{};
  require_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  std::vector<std::vector<Line>> lines(kRanks);
  Meeting meeting;
  std::vector<std::thread> threads;
  for (int number = 0; number < kRanks; ++number) {
    threads.emplace_back([&, number] {
      try {
        expect_success(cudaSetDevice(number), "cudaSetDevice");
        ncclComm_t communicator = nullptr;
        require_nccl(ncclCommInitRank(&communicator, kRanks, id, number), "ncclCommInitRank");
        Rank rank(number, communicator, logits, meeting);
        measure(rank, repetitions, lines[static_cast<std::size_t>(number)]);
        require_nccl(ncclCommDestroy(communicator), "ncclCommDestroy");
      } catch (const std::exception& error) {
        // Ends the process, because otherwise the other rank may wait for this rank for ever.
        fmt::print("rank {}: {}\n", number, error.what());
        std::_Exit(EXIT_FAILURE);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  cudaDeviceProp device{};
  expect_success(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  fmt::print("{} x {}, V = {}, float32, median of {} replays, microseconds\n", kRanks, device.name,
             kVocab, repetitions);
  return print(lines.front()) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace fairdraw::suites

int main(int count, char** arguments) {
  const int repetitions = count > 1 ? std::atoi(arguments[1]) : 30;
  if (repetitions < 1) {
    fmt::print(stderr, "REPETITIONS is '{}'; allowed: a number from 1 on\n", arguments[1]);
    return EXIT_FAILURE;
  }
  try {
    return fairdraw::suites::run(repetitions);
  } catch (const std::exception& error) {
    fmt::print(stderr, "sharded_benchmark: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
