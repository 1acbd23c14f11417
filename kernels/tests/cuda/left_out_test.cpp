// In a build that left out the CUDA kernels because it found no GPU (FAIRDRAW_CUDA=LATER or GPU),
// the error of every call must say how to add the kernels.
#include <gtest/gtest.h>

#include <string>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_memory.h"

namespace fairdraw::suites {
namespace {

TEST(CudaLeftOut, TheReasonSaysWhatToDo) {
  for (const cuda::Path path : {cuda::Path::best, cuda::Path::cluster, cuda::Path::block}) {
    EXPECT_FALSE(cuda::is_available(path));
    const std::string reason = cuda::why_not_available(path);
    // Every build without kernels gives a reason that begins with these words.
    EXPECT_EQ(reason.rfind("this build has no CUDA kernels", 0), 0U) << reason;
    EXPECT_NE(reason.find("`./fairdraw build`"), std::string::npos) << reason;
  }
}

TEST(CudaLeftOut, CallsGiveTheReason) {
  cuda::DeviceBuffer buffer;
  for (const Error& error : {cuda::sample({}, {}, {}), buffer.reserve(1)}) {
    EXPECT_EQ(error.code, ErrorCode::unsupported);
    EXPECT_EQ(error.message, cuda::why_not_available());
  }
}

}  // namespace
}  // namespace fairdraw::suites
