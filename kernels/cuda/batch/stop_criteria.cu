// When a request ends, on the GPU.
//
// Contract. As on the CPU, by the same rules (kernels/common/stop_rules.h): requests are
// independent, a bad one fails alone. Nothing but the request's arrays is read, nothing but the
// result's is written; each request reads its length before it writes one, so that the two may be
// one array.
//
// Algorithm and cost. A thread a request runs the very function that the CPU runs. A request has a
// handful of ids to look at: its step's tokens, its stop ids, its sequences, and of the output the
// few ids that a sequence still matches. They lie together, so that a list costs about one trip to
// memory for each 32 bytes, and the call takes the time of the few trips that wait for each other:
// where a list begins, what it holds, the end of the output. A warp a request would save some of
// those where lists are long, by a second writing of every rule with votes instead of loops; stops
// are short, and one writing of the rules is worth more. A request with very many stop ids costs a
// read of each, by one thread, and its warp waits for it. Blocks are one warp: a batch of a few
// dozen requests is then spread over several multiprocessors, whose loads do not queue behind each
// other.
//
// Randomness: none. Numerics: integers. Determinism: no thread reads what another writes.
#include <cstdint>

#include "common/stop_rules.h"
#include "cuda/batch/stop_criteria.h"
#include "cuda/device/row_launch.h"

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

}  // namespace

cudaError_t find_stops(const StopRequest& request, const StopResult& result, cudaStream_t stream) {
  const std::int64_t blocks = (request.requests + kThreads - 1) / kThreads;
  return launch_blocks(find_stops_kernel, blocks, kThreads, stream, request, result);
}

}  // namespace fairdraw::cuda
