// The walk over trees of drafted tokens of unknown distribution (fairdraw/speculative.h,
// verify_tree).
//
// Contract. Tokens, nodes and statuses of each request, from the tokens that the row kernel has
// drawn at every row of the target. Semantics: those of kernels/cpu/verify_tree.cpp: where a child
// has the token that is drawn after its parent the path goes on there, else it ends.
//
// Algorithm and cost. A warp a request. At each step the lanes look at the children after the
// current node side by side; a child comes after its parent, so the drafts are read once along
// the whole path. Rows that are not on the path were drawn too, at the same time: what is not used
// is not read, nor is a status.
//
// Randomness: none here. Determinism: the first child of equal ones, whatever the lanes' order.
#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/speculation/drafted_rows.h"
#include "cuda/speculation/tree_walk.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRequestsOfBlock = kThreads / kWarp;

__global__ void __launch_bounds__(kThreads)
    walk_trees_kernel(const __grid_constant__ DraftTask task,
                      const __grid_constant__ VerifyTreeResult result) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kRequestsOfBlock + warp_of_thread();
  for (std::int64_t b = first; b < task.target.batch;
       b += std::int64_t{gridDim.x} * kRequestsOfBlock) {
    walk_tree(task, result, b);
  }
}

}  // namespace

cudaError_t walk_trees(const DraftTask& task, const VerifyTreeResult& result, cudaStream_t stream) {
  const std::int64_t blocks = (task.target.batch + kRequestsOfBlock - 1) / kRequestsOfBlock;
  return launch_blocks(walk_trees_kernel, blocks, kThreads, stream, task, result);
}

}  // namespace fairdraw::cuda
