// This test runs on every machine, and expects either a usable GPU or a reason why there is none.
// Without a GPU, this test checks the reason, and that every call returns it as its error.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "tests/operations/operation_calls.h"

namespace fairdraw::suites {
namespace {

TEST(CudaAvailability, ThereIsAGpuOrAReason) {
  for (const cuda::Path path : {cuda::Path::best, cuda::Path::cluster, cuda::Path::block}) {
    const std::string reason = cuda::why_not_available(path);
    EXPECT_EQ(reason.empty(), cuda::is_available(path)) << cuda::to_string(path) << ": " << reason;
    std::printf("path %s: %s\n", cuda::to_string(path),
                reason.empty() ? "available" : reason.c_str());
  }
  // The path `best` must be one of the two other paths.
  EXPECT_EQ(cuda::is_available(),
            cuda::is_available(cuda::Path::cluster) || cuda::is_available(cuda::Path::block));
}

/// Expects an error: without a GPU its reason is the missing GPU, with a GPU the wrong kind of
/// memory.
void expect_refused(const Error& error, const std::string& what) {
  ASSERT_TRUE(error) << what;
  if (cuda::is_available()) {
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << what << ": " << error.message;
  } else {
    EXPECT_EQ(error.code, ErrorCode::unsupported) << what << ": " << error.message;
    EXPECT_NE(error.message.find(cuda::why_not_available()), std::string::npos) << error.message;
  }
}

TEST(CudaAvailability, CallsOnHostMemoryAreRefusedAndWriteNothing) {
  HostArrays arrays;
  const OwnedCall call = random_call(1, 5, 77);
  SampleOutputs outputs(call, kEverything);
  expect_refused(cuda::sample(request_in(call, arrays), result_in(call, outputs, arrays), {}),
                 "sample");
  EXPECT_TRUE(differences(call, SampleOutputs(call, kEverything), outputs, 1).empty());
  for (int i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    const OwnedCall rows = random_operation_call(operation, 1, 5, 77);
    OperationOutputs written(operation, rows);
    expect_refused(run_operation(operation, rows, written, arrays, cuda::Execution{}),
                   to_string(operation));
    EXPECT_TRUE(written == OperationOutputs(operation, rows)) << to_string(operation);
  }
}

}  // namespace
}  // namespace fairdraw::suites
