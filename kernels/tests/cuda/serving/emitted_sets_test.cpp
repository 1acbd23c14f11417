// Kept sets of calls that accept drafts on the GPU must equal the CPU's, byte for byte.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "fairdraw/cuda_kept_sets.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/graphs.h"
#include "tests/sample/kept_calls.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {
namespace {

struct Emitted {
  SpeculationOutputs outputs;
  KeptArrays kept;

  Emitted(const SpeculationCall& call, bool tree, std::int64_t room)
      : outputs(call, depth_of(call, tree)), kept(call.batch * (depth_of(call, tree) + 1), room) {}

  static std::int64_t depth_of(const SpeculationCall& call, bool tree) {
    return tree ? call.max_depth : call.max_draft;
  }
  bool operator==(const Emitted&) const = default;
};

Emitted run_on_cpu(const SpeculationCall& call, bool tree, std::int64_t room) {
  HostArrays arrays;
  Emitted emitted(call, tree, room);
  const Error error = tree ? accept_tree_with_kept_sets(
                                 tree_in(call, arrays),
                                 speculation_result_in<AcceptTreeResult>(emitted.outputs, arrays),
                                 emitted.kept.in(arrays))
                           : accept_chain_with_kept_sets(
                                 chain_in(call, arrays),
                                 speculation_result_in<AcceptChainResult>(emitted.outputs, arrays),
                                 emitted.kept.in(arrays));
  EXPECT_FALSE(error) << error.message;
  return emitted;
}

/// Runs a call on the GPU; `enqueue` is called with the function that enqueues the call.
template <class Enqueue>
void enqueue_on_gpu(const SpeculationCall& call, bool tree, cuda::Path path, Emitted& emitted,
                    DeviceArrays& arrays, void* stream, const Enqueue& enqueue) {
  const KeptSets kept = emitted.kept.in(arrays);
  const auto run = [&](const auto& request, const auto& result, auto* function) {
    const cuda::Execution how =
        arrays.execution_with(cuda::workspace_bytes(request, kept), path, stream);
    enqueue(how, [&] { return function(request, result, kept, how); });
  };
  if (tree) {
    run(tree_in(call, arrays), speculation_result_in<AcceptTreeResult>(emitted.outputs, arrays),
        &cuda::accept_tree_with_kept_sets);
  } else {
    run(chain_in(call, arrays), speculation_result_in<AcceptChainResult>(emitted.outputs, arrays),
        &cuda::accept_chain_with_kept_sets);
  }
}

class CudaEmittedSets : public ::testing::TestWithParam<bool> {};

TEST_P(CudaEmittedSets, MatchTheCpu) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const bool tree = GetParam();
  DeviceArrays arrays;
  std::int64_t sets = 0, overflows = 0;
  const std::uint64_t calls = is_reduced() ? 30 : 1500;
  for (std::uint64_t number = 0; number < calls && !HasFailure(); ++number) {
    constexpr std::int64_t kVocabs[] = {1, 5, 33, 130, 257, 1000, 5000, 128256};
    const std::int64_t vocab = kVocabs[number % (is_reduced() || number % 50 != 7 ? 6 : 8)];
    SpeculationCall call = random_speculation_call(300000 + number, vocab, tree);
    if (number % 5 == 0) {
      call.target.processing = harness::random_processing(number, call.target.rows, vocab);
    }
    const std::int64_t all = call.batch * (Emitted::depth_of(call, tree) + 1) * vocab;
    const std::int64_t room = number % 3 == 0 ? all / 8 : all;
    const Emitted expected = run_on_cpu(call, tree, room);
    for (const std::uint8_t overflow : expected.kept.overflow) overflows += overflow;
    for (std::size_t i = 0; i < expected.kept.overflow.size(); ++i) {
      sets += expected.kept.offsets[i + 1] > expected.kept.offsets[i] ? 1 : 0;
    }
    for (const cuda::Path path : available_paths()) {
      Emitted got(call, tree, room);
      arrays.rewind();
      enqueue_on_gpu(call, tree, path, got, arrays, nullptr, [](const auto&, const auto& enqueue) {
        const Error error = enqueue();
        EXPECT_FALSE(error) << error.message;
      });
      arrays.fetch();
      EXPECT_EQ(difference(expected.outputs, got.outputs), "")
          << "call " << number << ", " << cuda::to_string(path);
      EXPECT_TRUE(got.kept == expected.kept)
          << "call " << number << ", " << cuda::to_string(path) << ", room for " << room;
    }
  }
  EXPECT_GT(sets, 0);
  EXPECT_GT(overflows, 0);
}

/// The GPU computes the tree's accepted nodes even if the caller does not request them.
TEST(CudaEmittedSetsOfTrees, NeedNoNodes) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  for (std::uint64_t number = 0; number < (is_reduced() ? 6 : 60); ++number) {
    const SpeculationCall call = random_speculation_call(400000 + number, 130, true);
    const std::int64_t room = call.batch * (call.max_depth + 1) * 130;
    const Emitted expected = run_on_cpu(call, true, room);
    Emitted got(call, true, room);
    arrays.rewind();
    const AcceptTreeRequest request = tree_in(call, arrays);
    auto result = speculation_result_in<AcceptTreeResult>(got.outputs, arrays);
    result.nodes = {};
    const KeptSets kept = got.kept.in(arrays);
    const Error error = cuda::accept_tree_with_kept_sets(
        request, result, kept,
        arrays.execution_with(cuda::workspace_bytes(request, kept), cuda::Path::best));
    ASSERT_FALSE(error) << error.message;
    arrays.fetch();
    EXPECT_TRUE(got.kept == expected.kept) << "call " << number;
  }
}

TEST_P(CudaEmittedSets, AGraphAsksNothingOfItsWorkspace) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const bool tree = GetParam();
  Stream stream;
  const SpeculationCall call = random_speculation_call(500001, 1000, tree);
  const std::int64_t room = call.batch * (Emitted::depth_of(call, tree) + 1) * 500;
  const Emitted expected = run_on_cpu(call, tree, room);
  for (const cuda::Path path : available_paths()) {
    Emitted got(call, tree, room);
    DeviceArrays arrays;
    enqueue_on_gpu(
        call, tree, path, got, arrays, stream.get(), [&](const auto& how, const auto& enqueue) {
          Graph graph;
          Graph::begin(stream);
          const Error error = enqueue();
          graph.end(stream);
          ASSERT_FALSE(error) << error.message;
          graph.expect_device_work_only("with kept sets");
          for (const int dirt : {0, 0xff, 0x5a}) {
            require(cudaMemset(how.workspace, dirt, static_cast<std::size_t>(how.workspace_bytes)),
                    "cudaMemset");
            require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
            graph.launch(stream);
            arrays.fetch();
            EXPECT_EQ(difference(expected.outputs, got.outputs), "");
            EXPECT_TRUE(got.kept == expected.kept) << "dirt " << dirt;
          }
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CudaEmittedSets, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "trees" : "chains"; });

}  // namespace
}  // namespace fairdraw::suites
