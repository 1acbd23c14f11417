// In a build without CUDA kernels, these stubs replace the benchmarks on a GPU, and throw an error.
#include "fairdraw/cuda.h"
#include "harness/contract/usage_error.h"
#include "suites/benchmarks/cuda_benchmarks.h"

namespace fairdraw::suites {

std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions&,
                                                          const std::vector<std::string>& backends,
                                                          std::vector<std::string>&) {
  throw harness::UsageError("backend '" + backends.front() +
                            "' cannot run here: " + cuda::why_not_available());
}

}  // namespace fairdraw::suites
