// Calls on streams are captured in CUDA graphs and replayed with other seeds and parameters, also
// on two streams at once. The captured calls must not synchronise or allocate.
//
// Streams are captured in the global mode, in which CUDA rejects every call that could wait or
// allocate. The test captures a call before any other call has loaded the kernels, because a
// program may capture its first call.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/cuda/arrays.h"
#include "tests/cuda/graphs.h"
#include "tests/operations/operation_calls.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

/// Returns a call with an array for every parameter, so that a replay can change all parameters.
OwnedCall call_of_arrays(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  OwnedCall call = random_call(number, rows, vocab);
  call.indices.clear();
  call.num_samples = 1;
  const auto to_array = [rows](auto& parameter) {
    if (!parameter.is_array) parameter.make_array(rows);
    parameter.values.resize(static_cast<std::size_t>(rows));
  };
  to_array(call.temperature);
  to_array(call.top_k);
  to_array(call.top_p);
  to_array(call.min_p);
  to_array(call.seed);
  to_array(call.offset);
  return call;
}

/// Overwrites an array on the device with other values.
template <class T>
void overwrite(const PerRequest<T>& parameter, const std::vector<T>& values) {
  require(cudaMemcpy(const_cast<T*>(parameter.values.data), values.data(),
                     values.size() * sizeof(T), cudaMemcpyHostToDevice),
          "cudaMemcpy");
}

void expect_equal_to_the_cpu(const OwnedCall& call, const SampleOutputs& got,
                             const std::string& what) {
  SampleOutputs expected(call, kEverything);
  HostArrays host;
  const Error refused = sample(request_in(call, host), result_in(call, expected, host));
  ASSERT_FALSE(refused) << refused.message;
  for (const Difference& difference : differences(call, expected, got, 5)) {
    ADD_FAILURE() << what << ": " << difference.what << "\n  "
                  << describe_row(call, difference.row);
  }
}

TEST(CudaGraph, AReplayReadsSeedsOffsetsAndParametersAnew) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Stream stream;
  for (const cuda::Path path : available_paths()) {
    for (const CallResults& wanted : {kTokensAndStatuses, kEverything}) {
      OwnedCall call = call_of_arrays(11, 12, 3001);
      const OwnedCall others = call_of_arrays(14, 12, 3001);
      SampleOutputs got(call, wanted);
      DeviceArrays arrays;
      const SampleRequest request = request_in(call, arrays);
      const SampleResult result = result_in(call, got, arrays);
      const cuda::Execution execution = arrays.execution(call.rows, path, stream.get());
      Graph graph;
      Graph::begin(stream);
      const Error error = cuda::sample(request, result, execution);
      ASSERT_FALSE(error) << error.message;
      graph.end(stream);
      graph.expect_device_work_only("sample");
      std::vector<std::int32_t> tokens_before;
      int replays_with_new_tokens = 0;
      for (int replay = 0; replay < 6; ++replay) {
        for (std::uint64_t& seed : call.seed.values) seed += static_cast<std::uint64_t>(replay % 2);
        for (std::uint64_t& offset : call.offset.values) ++offset;
        if (replay == 3) {  // the last three replays also change the other parameters
          call.temperature = others.temperature;
          call.top_k = others.top_k;
          call.top_p = others.top_p;
          call.min_p = others.min_p;
        }
        overwrite(request.seed, call.seed.values);
        overwrite(request.offset, call.offset.values);
        overwrite(request.temperature, call.temperature.values);
        overwrite(request.top_k, call.top_k.values);
        overwrite(request.top_p, call.top_p.values);
        overwrite(request.min_p, call.min_p.values);
        require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
        graph.launch(stream);
        arrays.fetch();
        expect_equal_to_the_cpu(
            call, got,
            std::string("replay ") + std::to_string(replay) + " on " + cuda::to_string(path));
        if (got.tokens != tokens_before) ++replays_with_new_tokens;
        tokens_before = got.tokens;
      }
      // The CPU's tokens must differ between replays, so that the test detects a replay that does
      // not read its inputs again.
      EXPECT_GT(replays_with_new_tokens, 3);
    }
  }
}

TEST(CudaGraph, EveryOperationIsCapturedAndReplayed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Stream stream;
  for (const cuda::Path path : available_paths()) {
    for (int i = 0; i < kOperations; ++i) {
      const auto operation = static_cast<Operation>(i);
      const std::string what = std::string(to_string(operation)) + " on " + cuda::to_string(path);
      const OwnedCall call = random_operation_call(operation, 21, 7, 2050);
      OperationOutputs expected(operation, call);
      HostArrays host;
      ASSERT_FALSE(run_operation(operation, call, expected, host, Execution{})) << what;
      OperationOutputs got(operation, call);
      DeviceArrays arrays;
      const cuda::Execution execution = arrays.execution(call.rows, path, stream.get());
      arrays.when_ready([&stream] { Graph::begin(stream); });
      Graph graph;
      const Error error = run_operation(operation, call, got, arrays, execution);
      graph.end(stream);
      ASSERT_FALSE(error) << what << ": " << error.message;
      graph.expect_device_work_only(what);
      // The captured call has not run yet: capturing only records it.
      arrays.fetch();
      EXPECT_TRUE(got == OperationOutputs(operation, call)) << what;
      graph.launch(stream);
      arrays.fetch();
      EXPECT_TRUE(got == expected) << what;
    }
  }
}

TEST(CudaGraph, ArgumentsAreCheckedDuringACaptureAndDoNotBreakIt) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Stream stream;
  const OwnedCall call = call_of_arrays(12, 4, 500);
  SampleOutputs got(call, kTokensAndStatuses);
  std::vector<std::int32_t> on_the_host(4, -7);
  DeviceArrays arrays;
  const SampleRequest request = request_in(call, arrays);
  const SampleResult result = result_in(call, got, arrays);
  const cuda::Execution execution = arrays.execution(call.rows, cuda::Path::best, stream.get());
  SampleResult wrong = result;
  wrong.tokens.data = on_the_host.data();
  Graph graph;
  Graph::begin(stream);
  const Error refused = cuda::sample(request, wrong, execution);
  const Error error = cuda::sample(request, result, execution);
  graph.end(stream);
  EXPECT_EQ(refused.code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.message.rfind("tokens is ", 0), 0U) << refused.message;
  ASSERT_FALSE(error) << error.message;
  graph.launch(stream);
  arrays.fetch();
  expect_equal_to_the_cpu(call, got, "the call after the refused one");
}

TEST(CudaStreams, AThousandCallsTakeNoMemory) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Stream stream;
  const OwnedCall call = call_of_arrays(13, 8, 1025);
  const int calls = is_reduced() ? 20 : 1000;
  for (const cuda::Path path : available_paths()) {
    for (const CallResults& wanted : {kTokensAndStatuses, kEverything}) {
      SampleOutputs got(call, wanted);
      DeviceArrays arrays;
      const SampleRequest request = request_in(call, arrays);
      const SampleResult result = result_in(call, got, arrays);
      const cuda::Execution execution = arrays.execution(call.rows, path, stream.get());
      const auto run = [&] {
        const Error error = cuda::sample(request, result, execution);
        ASSERT_FALSE(error) << error.message;
      };
      run();  // the first call loads the CUDA kernels
      require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      std::size_t free_before = 0;
      std::size_t free_after = 0;
      std::size_t all = 0;
      require(cudaMemGetInfo(&free_before, &all), "cudaMemGetInfo");
      for (int i = 0; i < calls && !HasFatalFailure(); ++i) run();
      require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      require(cudaMemGetInfo(&free_after, &all), "cudaMemGetInfo");
      EXPECT_EQ(free_after, free_before) << calls << " calls on " << cuda::to_string(path);
      arrays.fetch();
      expect_equal_to_the_cpu(call, got, cuda::to_string(path));
    }
  }
}

TEST(CudaStreams, TwoStreamsAtOnceDoNotDisturbEachOther) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  struct Side {
    Stream stream;
    OwnedCall call;
    SampleOutputs got;
    DeviceArrays arrays;
    SampleRequest request;
    SampleResult result;
    cuda::Execution execution;

    Side(std::uint64_t number, cuda::Path path)
        : call(call_of_arrays(number, 40, 4099)), got(call, kEverything) {
      request = request_in(call, arrays);
      result = result_in(call, got, arrays);
      execution = arrays.execution(call.rows, path, stream.get());
    }
  };
  for (const cuda::Path path : available_paths()) {
    // The second stream runs every path while the first stream runs its own path.
    for (const cuda::Path other : available_paths()) {
      Side a(15, path);
      Side b(18, other);
      for (int round = 0; round < (is_reduced() ? 1 : 10); ++round) {
        for (int i = 0; i < 10; ++i) {
          ASSERT_FALSE(cuda::sample(a.request, a.result, a.execution));
          ASSERT_FALSE(cuda::sample(b.request, b.result, b.execution));
        }
        a.arrays.fetch();
        b.arrays.fetch();
        expect_equal_to_the_cpu(a.call, a.got, "the first stream");
        expect_equal_to_the_cpu(b.call, b.got, "the second stream");
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
