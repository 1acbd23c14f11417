// Stop criteria of requests on the GPU: check_stop (fairdraw/cuda_stop_criteria.h) and its kernel.
//
// Contract. The rules are those of the CPU (kernels/serving/rules/stop_rules.h): requests are
// independent of each other, and a request that fails does not affect others. The kernel reads only
// the arrays of the request, and writes only the arrays of the result. Each thread reads the old
// length of its request before it writes the new length, so that both arrays may be in the same
// memory.
//
// Algorithm and cost. Each request has one thread, which runs the same function as the CPU. A
// thread compares only a few ids: the tokens of the request's step, its stop ids, its stop
// sequences, and the few ids of the output that a stop sequence still matches. The ids of a list
// are adjacent in memory, so a list costs about one memory access per 32 bytes. The call takes the
// time of a few dependent accesses: the start of a list, its ids, and the end of the output. If
// each request had a warp, some of these accesses would be saved for long lists, but every rule
// would need a second version, with votes instead of loops. Stop lists are short, so having a
// single version of the rules matters more. If a request has very many stop ids, its thread reads
// one id after another, and the other threads of the warp wait. Each block is one warp, so that a
// batch of a few dozen requests is spread over several SMs, whose loads do not wait for each other.
//
// Randomness: none. Numerics: integers. Determinism: no thread reads data that another thread
// writes.
#include <cstdint>

#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/device/row_launch.h"
#include "fairdraw/cuda_stop_criteria.h"
#include "serving/rules/stop_rules.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 32;

__global__ void __launch_bounds__(kThreads)
    find_stops_kernel(const __grid_constant__ StopRequest request,
                      const __grid_constant__ StopResult result) {
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t r = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; r < request.requests;
       r += threads) {
    write_stop_outcome(stop_outcome(request, r), result, r);
  }
}

Error check_pointers(const StopRequest& request, const StopResult& result) {
  DevicePointers pointers;
  const StopCriteria& given = request.criteria;
  pointers.check("step_tokens", request.step_tokens);
  pointers.check("output", request.output);
  pointers.check("output_lengths", request.output_lengths);
  pointers.check("active", request.active);
  pointers.check("eos_id", given.eos_id);
  pointers.check("ignore_eos", given.ignore_eos);
  pointers.check("stop_ids", given.stop_ids);
  pointers.check("stop_sequences", given.stop_sequences);
  pointers.check("stop_sequence_lengths", given.stop_sequence_lengths);
  pointers.check("min_tokens", given.min_tokens);
  pointers.check("max_tokens", given.max_tokens);
  pointers.check("reasons", result.reasons);
  pointers.check("kept", result.kept);
  pointers.check("matched", result.matched);
  pointers.check("matched_lengths", result.matched_lengths);
  pointers.check("result.output_lengths", result.output_lengths);
  pointers.check("statuses", result.statuses);
  return pointers.error();
}

}  // namespace

Error check_stop(const StopRequest& request, const StopResult& result, void* stream) {
  if (Error error = check_stop_arguments(request, result)) return error;
  Path path = Path::best;
  if (Error error = check_path(path)) return error;
  if (Error error = check_pointers(request, result)) return error;
  if (request.requests == 0) return {};
  const std::int64_t blocks = (request.requests + kThreads - 1) / kThreads;
  return check_launch("stop_criteria",
                      launch_blocks(find_stops_kernel, blocks, kThreads,
                                    static_cast<cudaStream_t>(stream), request, result));
}

}  // namespace fairdraw::cuda
