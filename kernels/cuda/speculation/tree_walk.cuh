// Walk of a request down the tree of its drafts. This file has the parts that two walks share, the
// walk that compares drawn tokens and the walk that uses distributions, and the first of these
// walks.
#pragma once

#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/speculation/drafted_rows.h"

namespace fairdraw::cuda {

/// Returns the first draft in [from, end) for which `matches` is true, or `end` if there is none. A
/// whole warp must call this function.
template <class Matches>
__device__ std::int64_t find_draft(std::int64_t from, std::int64_t end, const Matches& matches) {
  for (std::int64_t first = from; first < end; first += kWarp) {
    const std::int64_t draft = first + lane_of_thread();
    const unsigned found = __ballot_sync(kAllLanes, draft < end && matches(draft));
    if (found != 0) return first + __ffs(static_cast<int>(found)) - 1;
  }
  return end;
}

/// Results of one request, with its tokens, its nodes and its status.
struct TreePath {
  std::int32_t* tokens;
  std::int32_t* nodes;  ///< null: not wanted
  std::int32_t* accepted;
  RowStatus* status;
  std::int64_t max_depth;

  __device__ static TreePath of(const DraftTask& task, const AcceptTreeResult& result,
                                std::int64_t b) {
    return {result.tokens.data + b * (task.max_depth + 1),
            result.nodes.given() ? result.nodes.data + b * task.max_depth : nullptr,
            result.accepted.given() ? result.accepted.data + b : nullptr,
            result.statuses.given() ? result.statuses.data + b : nullptr, task.max_depth};
  }

  /// Returns whether the arrays have room for one more accepted draft. There is always room, except
  /// in requests whose rows overlap with other requests' rows (drafted_rows.cu).
  __device__ bool has_room(std::int64_t depth) const { return depth < max_depth; }

  /// Writes the draft that was accepted at a depth, with one thread.
  __device__ void stand(std::int64_t depth, std::int64_t node, std::int32_t token) const {
    tokens[depth] = token;
    if (nodes != nullptr) nodes[depth] = static_cast<std::int32_t>(node);
  }

  /// Writes the results after the end of the path, or all results if the request has failed.
  /// Exactly `threads` threads must call this function, and all of these threads must see the
  /// results that were written earlier.
  __device__ void end(RowStatus result, std::int64_t stand, int thread, int threads) const {
    const bool ok = result == RowStatus::ok;
    for (std::int64_t i = (ok ? stand + 1 : 0) + thread; i <= max_depth; i += threads) {
      tokens[i] = -1;
    }
    if (nodes != nullptr) {
      for (std::int64_t i = (ok ? stand : 0) + thread; i < max_depth; i += threads) nodes[i] = -1;
    }
    if (thread != 0) return;
    if (accepted != nullptr) *accepted = ok ? static_cast<std::int32_t>(stand) : 0;
    if (status != nullptr) *status = result;
  }
};

/// Walks down a tree by comparing the drawn tokens with the drafts, with one warp. If a child of a
/// node has the token that was drawn at the node, the path continues at this child; otherwise the
/// path ends.
__device__ inline void walk_tree(const DraftTask& task, const AcceptTreeResult& result,
                                 std::int64_t b) {
  const DraftedState state = task.requests[b];
  const DraftedRequest& request = state.request;
  const std::int32_t* const drafted = task.drafts.tokens.data + request.place;
  const TreePath path = TreePath::of(task, result, b);
  const int lane = lane_of_thread();
  RowStatus status = state.status;
  std::int64_t stand = 0;
  if (status == RowStatus::ok) {
    for (std::int64_t node = -1;; ++stand) {
      const std::int64_t row = request.row + node + 1;
      status = task.draws.statuses[row];
      if (status != RowStatus::ok) break;
      const std::int32_t token = task.draws.tokens[row];
      const std::int64_t child = find_draft(node + 1, request.drafts, [&](std::int64_t draft) {
        return task.parent(request, draft) == node && drafted[draft] == token;
      });
      if (child == request.drafts) {
        if (lane == 0) path.tokens[stand] = token;
        break;
      }
      if (!path.has_room(stand)) {
        status = RowStatus::invalid_draft_length;
        break;
      }
      if (lane == 0) path.stand(stand, child, token);
      node = child;
    }
  }
  __syncwarp();
  path.end(status, stand, lane, kWarp);
}

}  // namespace fairdraw::cuda
