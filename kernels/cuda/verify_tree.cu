// The walk over a tree of drafted tokens (fairdraw/speculative.h, verify_tree).
//
// Contract. Tokens, nodes and statuses of each request, from the tokens that the row kernel has
// drawn at every row of the target. Semantics: those of kernels/cpu/verify_tree.cpp: where a child
// has the token that is drawn behind its parent the path goes on there, else it ends.
//
// Algorithm and cost. A warp a request. At each step the lanes look at the children behind the
// current node side by side; a child comes after its parent, so the drafts are looked at once along
// the whole path. Rows that are not on the path were drawn too, at the same time: what is not used
// is not looked at, a status neither.
//
// Randomness: none here. Determinism: the first child of equal ones, whatever the lanes' order.
#include "block_sums.cuh"
#include "drafted_rows.h"
#include "row_launch.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRequestsOfBlock = kThreads / kWarpSize;

/// The first draft from `from` on that follows `node` and is `token`; the number of drafts where
/// there is none. One warp.
__device__ std::int64_t find_child(const DraftTask& task, const DraftedRequest& request,
                                   std::int64_t node, std::int32_t token) {
  for (std::int64_t first = node + 1; first < request.drafts; first += kWarpSize) {
    const std::int64_t draft = first + lane_of_thread();
    const std::int64_t place = request.place + draft;
    const bool follows = draft < request.drafts && task.parents.data[place] == node &&
                         task.drafts.tokens.data[place] == token;
    const unsigned found = __ballot_sync(kWholeWarp, follows);
    if (found != 0) return first + __ffs(static_cast<int>(found)) - 1;
  }
  return request.drafts;
}

/// One warp.
__device__ void walk_tree(const DraftTask& task, const VerifyTreeResult& result, std::int64_t b) {
  const DraftedState state = task.requests[b];
  const int lane = lane_of_thread();
  std::int32_t* tokens = result.tokens.data + b * (task.max_depth + 1);
  std::int32_t* nodes = result.nodes.given() ? result.nodes.data + b * task.max_depth : nullptr;
  RowStatus status = state.status;
  std::int64_t written = 0;  // of tokens
  if (status == RowStatus::ok) {
    for (std::int64_t node = -1;; ++written) {
      const std::int64_t row = state.request.row + node + 1;
      status = task.draws.statuses[row];
      if (status != RowStatus::ok) break;
      const std::int32_t token = task.draws.tokens[row];
      if (lane == 0) tokens[written] = token;
      node = find_child(task, state.request, node, token);
      if (node == state.request.drafts) break;
      if (lane == 0 && nodes != nullptr) nodes[written] = static_cast<std::int32_t>(node);
    }
  }
  const bool ok = status == RowStatus::ok;
  __syncwarp();
  for (std::int64_t i = (ok ? written + 1 : 0) + lane; i <= task.max_depth; i += kWarpSize) {
    tokens[i] = -1;
  }
  if (nodes != nullptr) {
    for (std::int64_t i = (ok ? written : 0) + lane; i < task.max_depth; i += kWarpSize) {
      nodes[i] = -1;
    }
  }
  if (lane != 0) return;
  if (result.accepted.given()) {
    result.accepted.data[b] = ok ? static_cast<std::int32_t>(written) : 0;
  }
  if (result.statuses.given()) result.statuses.data[b] = status;
}

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
