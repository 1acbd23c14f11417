// Benchmarks of GPU samplers in a build without CUDA kernels: an error that says so.
#include "fairdraw/cuda.h"
#include "harness/contract/usage_error.h"
#include "suites/benchmarks/cuda_benchmarks.h"
#include "suites/benchmarks/cuda_serving_benchmarks.h"
#include "suites/benchmarks/cuda_step_benchmarks.h"

namespace fairdraw::suites {

std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions&,
                                                          const std::vector<std::string>& backends,
                                                          BenchmarkInput,
                                                          std::vector<std::string>&) {
  throw harness::UsageError("backend '" + backends.front() +
                            "' cannot run here: " + cuda::why_not_available());
}

std::vector<harness::BenchmarkRecord> run_step_benchmarks(const BenchmarkOptions&,
                                                          const std::vector<std::string>& backends,
                                                          const std::vector<std::string>&,
                                                          std::vector<std::string>&) {
  throw harness::UsageError("backend '" + backends.front() +
                            "' cannot run here: " + cuda::why_not_available());
}

/// Any name that may be one: the call says that there is no GPU, whatever follows.
bool is_serving_operation(const std::string& name) {
  for (const char* prefix : {"logprobs/", "verify_", "chain_speculative_sampling_", "beam_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

std::vector<harness::BenchmarkRecord> run_serving_benchmarks(
    const BenchmarkOptions&, const std::vector<std::string>& backends,
    const std::vector<std::string>&, std::vector<std::string>&) {
  throw harness::UsageError("backend '" + backends.front() +
                            "' cannot run here: " + cuda::why_not_available());
}

}  // namespace fairdraw::suites
