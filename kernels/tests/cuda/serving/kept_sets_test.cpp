// Kept sets on the GPU are compared with the CPU's, which the masks judge: ids, offsets and
// overflows byte for byte, and all other results of the call.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "fairdraw/cuda_kept_sets.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/graphs.h"
#include "tests/sample/kept_calls.h"
#include "tests/sample/kept_draws.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

/// Numbers of kept sets in a test's calls: of all sets, empty sets and overflowing sets.
struct Seen {
  std::int64_t sets = 0, empty = 0, overflows = 0, after_overflow = 0;
};

/// The CPU's results.
struct Expected {
  SampleOutputs outputs;
  KeptArrays kept;

  Expected(const OwnedCall& call, std::int64_t room)
      : outputs(call, kEverything), kept(call.outputs(), room) {
    HostArrays host;
    const SampleRequest request = request_in(call, host);
    const SampleResult result = result_in(call, outputs, host);
    const Error error = sample_with_kept_sets(request, result, kept.in(host), {});
    EXPECT_FALSE(error) << error.message;
  }

  void count(Seen& seen) const {
    bool overflowed = false;
    for (std::size_t i = 0; i < kept.overflow.size(); ++i) {
      const bool is_empty = kept.offsets[i + 1] == kept.offsets[i];
      seen.sets += is_empty ? 0 : 1;
      seen.empty += is_empty && kept.overflow[i] == 0 ? 1 : 0;
      seen.overflows += kept.overflow[i];
      seen.after_overflow += overflowed && !is_empty ? 1 : 0;
      overflowed = overflowed || kept.overflow[i] != 0;
    }
  }
};

cuda::Execution execution_of(DeviceArrays& arrays, const SampleRequest& request,
                             const KeptSets& kept, cuda::Path path, void* stream = nullptr) {
  return arrays.execution_with(cuda::workspace_bytes(request, {}, kept), path, stream);
}

/// Runs a call on all paths, once with all results requested, and once with only tokens and kept
/// sets.
void compare_call(std::uint64_t number, const OwnedCall& call, std::int64_t room,
                  DeviceArrays& arrays, Seen& seen) {
  const Expected expected(call, room);
  expected.count(seen);
  for (const cuda::Path path : available_paths()) {
    for (const CallResults& wanted :
         {kEverything, CallResults{false, number % 2 == 0, false, false, false}}) {
      SampleOutputs got(call, wanted);
      KeptArrays kept(call.outputs(), room);
      arrays.rewind();
      const SampleRequest request = request_in(call, arrays);
      const SampleResult result = result_in(call, got, arrays);
      const KeptSets sets = kept.in(arrays);
      const Error error = cuda::sample_with_kept_sets(request, result, sets,
                                                      execution_of(arrays, request, sets, path));
      ASSERT_FALSE(error) << "call " << number << ": " << error.message;
      arrays.fetch();
      EXPECT_TRUE(kept == expected.kept)
          << "call " << number << " on " << cuda::to_string(path) << ", room for " << room;
      for (const Difference& difference : differences(call, expected.outputs, got, 5)) {
        ADD_FAILURE() << "call " << number << " on " << cuda::to_string(path) << ": "
                      << difference.what << "\n  " << describe_row(call, difference.row);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

OwnedCall processed_call(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  OwnedCall call = random_call(number, rows, vocab);
  if (number % 3 == 0) call.processing = harness::random_processing(number, rows, vocab);
  return call;
}

TEST(CudaKeptSets, MatchTheCpuInCallsOfEveryKind) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  const std::uint64_t calls = is_reduced() ? 24 : 900;
  for (std::uint64_t i = 0; i < calls && !HasFailure(); ++i) {
    std::mt19937_64 random(~i);
    const auto vocab = static_cast<std::int64_t>(1 + random() % (i % 4 == 0 ? 20000 : 1500));
    const std::int64_t most = is_reduced() ? 12 : std::min<std::int64_t>(300, 1000000 / vocab);
    const auto rows = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(most));
    const OwnedCall call = processed_call(i, rows, vocab);
    // The arrays have room either for all tokens or for a random part of them.
    const std::int64_t all = call.outputs() * vocab;
    compare_call(i, call, all, arrays, seen);
    const auto part = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(all + 1));
    compare_call(i, call, random() % 2 == 0 ? part : part / 16, arrays, seen);
  }
  EXPECT_GT(seen.sets, seen.empty);
  EXPECT_GT(seen.overflows, 0);
  EXPECT_GT(seen.after_overflow, 0);
}

TEST(CudaKeptSets, MatchTheCpuForLargeVocabularies) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  const std::vector<std::int64_t> vocabs =
      is_reduced() ? std::vector<std::int64_t>{9001}
                   : std::vector<std::int64_t>{32000, 50304, 128256, 131071, 262144, kMaxVocab};
  std::uint64_t number = 9000000;
  for (const std::int64_t vocab : vocabs) {
    for (int i = 0; i < 6 && !HasFailure(); ++i) {
      ++number;
      const OwnedCall call = processed_call(number, is_reduced() ? 2 : 1 + i * 4, vocab);
      compare_call(number, call, call.outputs() * vocab / (1 + i % 2 * 3), arrays, seen);
    }
  }
  EXPECT_GT(seen.sets, 0);
}

/// The numbers of outputs lie around 256, from which on a separate launch computes the offsets.
/// Last chunks are not full, and every chunk has overflowing sets.
TEST(CudaKeptSets, NumbersOfOutputsChangeNothing) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  std::uint64_t number = 9100000;
  const std::vector<std::int64_t> sizes =
      is_reduced() ? std::vector<std::int64_t>{33, 257}
                   : std::vector<std::int64_t>{1, 64, 255, 256, 257, 511, 512, 513, 1024, 4097};
  for (const std::int64_t outputs : sizes) {
    for (const std::int64_t rows : {std::int64_t{3}, outputs}) {
      // With few rows, a call has 16 thread blocks per output, which take minutes one by one under
      // compute-sanitizer.
      if (is_reduced() && rows != outputs && outputs > 40) continue;
      ++number;
      OwnedCall call = random_call(number, rows, 70);
      call.num_samples = 1;
      call.seed = call.offset = {};
      call.indices.clear();
      std::mt19937_64 random(number);
      if (rows != outputs) {  // one index in a hundred is out of its range
        for (std::int64_t i = 0; i < outputs; ++i) {
          call.indices.push_back(random() % 100 == 0 ? static_cast<std::int32_t>(rows)
                                                     : static_cast<std::int32_t>(random() % 3));
        }
      }
      const Expected whole(call, outputs * 70);
      const std::int64_t needed = whole.kept.offsets.back();
      for (const std::int64_t room : {needed, needed - 1, needed / 2, std::int64_t{0}}) {
        compare_call(number, call, std::max<std::int64_t>(room, 0), arrays, seen);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(seen.after_overflow, 0);
}

/// Draws ten million tokens from rows of every kind.
TEST(CudaKeptSets, AreTheModelsAndHoldEveryTokenThatIsDrawn) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  const std::int64_t draws = is_reduced() ? 40000 : 10000000;
  const std::int64_t drawn = compare_kept_draws(draws, [&](const RandomRow& row, KeptDraws& got) {
    arrays.rewind();
    SampleRequest request = request_of(row, kDrawsOfARow);
    request.logits.data = arrays.in(row.logits);
    request.seed = row.seed;
    request.offset = row.offset;
    if (!row.allowed.empty()) request.allowed.data = arrays.in(row.allowed);
    SampleResult result;
    result.tokens = {arrays.out(got.tokens), kDrawsOfARow};
    result.statuses = {arrays.out(got.statuses), 1};
    const KeptSets kept = got.kept.in(arrays);
    const Error error = cuda::sample_with_kept_sets(
        request, result, kept, execution_of(arrays, request, kept, cuda::Path::best));
    EXPECT_FALSE(error) << error.message;
    arrays.fetch();
  });
  EXPECT_GE(drawn, draws);
  RecordProperty("draws", std::to_string(drawn));
}

TEST(CudaKeptSets, NoOutputsHaveOneOffset) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OwnedCall call = random_call(5, 3, 40);
  call.indices.clear();
  call.num_samples = 1;
  call.seed = call.offset = {};
  DeviceArrays arrays;
  SampleRequest request = request_in(call, arrays);
  const std::vector<std::int32_t> indices(1, 0);
  request.indices = {arrays.in(indices), 0};
  KeptArrays kept(0, 0);
  const KeptSets sets = kept.in(arrays);
  const Error error = cuda::sample_with_kept_sets(
      request, {}, sets, execution_of(arrays, request, sets, cuda::Path::best));
  ASSERT_FALSE(error) << error.message;
  arrays.fetch();
  EXPECT_EQ(kept.offsets, std::vector<std::int64_t>{0});
}

/// Replays a graph after other work has overwritten its workspace.
TEST(CudaKeptSets, AGraphAsksNothingOfItsWorkspace) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Stream stream;
  for (const cuda::Path path : available_paths()) {
    for (const std::int64_t rows : {12, 300}) {
      OwnedCall call = random_call(18, rows, 3001);
      call.indices.clear();
      call.num_samples = 1;
      call.seed = call.offset = {};
      const std::int64_t room = rows * 1500;
      const Expected expected(call, room);
      SampleOutputs got(call, kTokensAndStatuses);
      KeptArrays kept(rows, room);
      DeviceArrays arrays;
      const SampleRequest request = request_in(call, arrays);
      const SampleResult result = result_in(call, got, arrays);
      const KeptSets sets = kept.in(arrays);
      const cuda::Execution execution = execution_of(arrays, request, sets, path, stream.get());
      Graph graph;
      Graph::begin(stream);
      const Error error = cuda::sample_with_kept_sets(request, result, sets, execution);
      graph.end(stream);
      ASSERT_FALSE(error) << error.message;
      graph.expect_device_work_only("sample_with_kept_sets");
      for (const int dirt : {0, 0xff, 0x5a}) {
        require(cudaMemset(execution.workspace, dirt,
                           static_cast<std::size_t>(execution.workspace_bytes)),
                "cudaMemset");
        require(cudaMemset(sets.offsets.data, dirt,
                           static_cast<std::size_t>(sets.offsets.size) * sizeof(std::int64_t)),
                "cudaMemset");
        require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
        graph.launch(stream);
        arrays.fetch();
        EXPECT_TRUE(kept == expected.kept) << rows << " rows, dirt " << dirt;
        EXPECT_EQ(got.tokens, expected.outputs.tokens);
      }
    }
  }
}

TEST(CudaKeptSets, HostMemoryIsRefusedByTheNameOfItsField) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OwnedCall call = random_call(7, 2, 40);
  call.indices.clear();
  call.num_samples = 1;
  call.seed = call.offset = {};
  DeviceArrays arrays;
  const SampleRequest request = request_in(call, arrays);
  SampleOutputs got(call, kTokensAndStatuses);
  const SampleResult result = result_in(call, got, arrays);
  KeptArrays kept(2, 80), host(2, 80);
  const KeptSets sets = kept.in(arrays);
  const cuda::Execution execution = execution_of(arrays, request, sets, cuda::Path::best);
  const auto refusal = [&](const KeptSets& other) {
    return cuda::sample_with_kept_sets(request, result, other, execution).message;
  };
  KeptSets ids = sets, offsets = sets, overflow = sets;
  ids.token_ids.data = host.ids.data();
  offsets.offsets.data = host.offsets.data();
  overflow.overflow.data = host.overflow.data();
  EXPECT_NE(refusal(ids).find("kept.token_ids"), std::string::npos);
  EXPECT_NE(refusal(offsets).find("kept.offsets"), std::string::npos);
  EXPECT_NE(refusal(overflow).find("kept.overflow"), std::string::npos);
  offsets = sets;
  offsets.offsets.size = 2;
  EXPECT_NE(refusal(offsets).find("kept.offsets"), std::string::npos);
  cuda::Execution small = execution;
  // the size for a call without kept sets, which is too small
  small.workspace_bytes = cuda::workspace_bytes(request);
  const Error error = cuda::sample_with_kept_sets(request, result, sets, small);
  EXPECT_NE(error.message.find("workspace"), std::string::npos) << error.message;
}

}  // namespace
}  // namespace fairdraw::suites
