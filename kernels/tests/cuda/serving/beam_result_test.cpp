// beam_search_result on the GPU is compared with the CPU's, which whole searches of the reference
// judge: with arrays of any content, invalid requests, and a replayed graph.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "fairdraw/cuda_beam_result.h"
#include "tests/cuda/graphs.h"
#include "tests/cuda/serving/beam_calls.h"
#include "tests/sample/reduced.h"
#include "tests/serving/beam_result_call.h"

namespace fairdraw::suites {
namespace {

/// Runs beam_search_result on the GPU for arrays that are on the host.
class OnGpu {
 public:
  Error operator()(const BeamResultRequest& request, const BeamSequences& result) {
    device_.rewind();
    const BeamResultRequest on = end_on(device_, request);
    const BeamSequences to = sequences_on(device_, result);
    if (Error error = cuda::beam_search_result(on, to)) return error;
    device_.fetch();
    return {};
  }

 private:
  DeviceCopies device_;
};

void expect_the_cpus(BeamResultCall& call, OnGpu& on_gpu) {
  const BeamFound expected = call.run_on_cpu();
  ASSERT_FALSE(call.error) << call.error.message;
  const BeamFound found = call.run(std::ref(on_gpu));
  ASSERT_FALSE(call.error) << call.error.message;
  EXPECT_EQ(found.statuses, expected.statuses);
  EXPECT_EQ(found.lengths, expected.lengths);
  EXPECT_EQ(found.scores, expected.scores);
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_TRUE(found == expected);
}

TEST(CudaBeamResult, RandomArraysEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::mt19937_64 random(20261122);
  OnGpu on_gpu;
  int failed = 0;
  int whole = 0;
  const int repeats = is_reduced() ? 20 : 1000;
  for (int repeat = 0; repeat < repeats && !HasFailure(); ++repeat) {
    const auto call = random_beam_result(random, 1 + static_cast<std::int64_t>(random() % 40),
                                         1 + static_cast<std::int32_t>(random() % 20),
                                         1 + static_cast<std::int32_t>(random() % 30));
    expect_the_cpus(*call, on_gpu);
    for (const RowStatus status : call->run_on_cpu().statuses) {
      ++(status == RowStatus::ok ? whole : failed);
    }
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(whole, failed);
}

TEST(CudaBeamResult, TheWidestBeamsAndLongSequencesEqualTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::mt19937_64 random(20261123);
  OnGpu on_gpu;
  for (const std::int32_t width : {255, 256, 257, 1023, 1024}) {
    for (const std::int32_t best : {1, width / 2, width}) {
      const auto call = random_beam_result(random, 3, width, is_reduced() ? 3 : 100);
      call->request.best = best;
      expect_the_cpus(*call, on_gpu);
    }
  }
  if (is_reduced()) return;
  expect_the_cpus(*random_beam_result(random, 5000, 4, 16), on_gpu);
  expect_the_cpus(*random_beam_result(random, 2, 4, 20000), on_gpu);
}

TEST(CudaBeamResult, WhatIsWrongWithOneRequestFailsItAlone) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OnGpu on_gpu;
  for (const auto& [status, mutation] : all_beam_result_breaks()) {
    const auto call = three_beam_results();
    mutation(*call);
    expect_the_cpus(*call, on_gpu);
    EXPECT_EQ(call->run(std::ref(on_gpu)).statuses[1], status);
  }
}

TEST(CudaBeamResult, ResultsThatAreNotAskedForAndNobody) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  OnGpu on_gpu;
  const auto call = three_beam_results();
  const BeamFound whole = call->run_on_cpu();
  const BeamFound found =
      call->run([&on_gpu](const BeamResultRequest& request, const BeamSequences& result) {
        BeamSequences less = result;
        less.cumulative = {};
        less.statuses = {};
        return on_gpu(request, less);
      });
  ASSERT_FALSE(call->error) << call->error.message;
  EXPECT_EQ(found.tokens, whole.tokens);
  EXPECT_EQ(found.scores, whole.scores);
  EXPECT_EQ(found.cumulative, call->nothing().cumulative);
  EXPECT_FALSE(on_gpu({}, {}));
}

TEST(CudaBeamResult, AGraphReadsTheArraysAnew) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const auto call = three_beam_results();
  const BeamFound before = call->run_on_cpu();
  BeamFound found = call->nothing();
  DeviceCopies device;
  const BeamResultRequest request = end_on(device, call->request);
  const BeamSequences result = sequences_on(device, found.views());
  Stream stream;
  Graph graph;
  Graph::begin(stream);
  const Error error = cuda::beam_search_result(request, result, stream.get());
  graph.end(stream);
  ASSERT_FALSE(error) << error.message;
  graph.expect_device_work_only("beam_search_result");
  device.fetch();
  EXPECT_TRUE(found == call->nothing());  // a captured CUDA graph only records the call
  graph.launch(stream);
  device.fetch();
  EXPECT_TRUE(found == before);
  call->pool_scores[3] = -0.25F;  // now the sequences of the pool score better than the live beams
  require(cudaMemcpy(request.pool.scores.data, call->pool_scores.data(),
                     call->pool_scores.size() * sizeof(float), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  graph.launch(stream);
  device.fetch();
  const BeamFound after = call->run_on_cpu();
  EXPECT_FALSE(after == before);
  EXPECT_TRUE(found == after);
}

}  // namespace
}  // namespace fairdraw::suites
