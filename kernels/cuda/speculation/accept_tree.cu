// Walk over trees of drafted tokens, for accept_tree and accept_chain (fairdraw/speculative.h).
//
// Contract. The kernel writes, for each request, the tokens, the nodes and a status. If the
// distribution of a request's drafts is known, the input consists of filtered rows of the target
// and of the draft, with a draft row for every node that has children. Otherwise, and for greedy
// requests and requests without drafts, the input consists of the tokens that the row kernel has
// drawn at every target row. Rows that are not on the path do not matter, even if they are bad. The
// semantics are those of kernels/serving/drafts/accept_tree.cpp.
//
// Algorithm and cost. If the distribution of the drafts is unknown, one warp per request walks the
// tree (tree_walk.cuh). If the distribution is known, 1 to 8 blocks per request walk down the path
// of the request together. At each node, the children are tested one after another, in the
// arithmetic of kernels/serving/rules/sibling_scales.h. A test needs two weights, and the sums of P
// and Q over the tokens that remain; every thread by itself makes the test, with the same result.
//
// The bounds of the totals decide nearly every test of a first child. If a first child is accepted
// by these bounds, no row is read; first children with consecutive numbers are tested in parallel.
// If a first child is rejected, one pass over both rows sums the totals and the remaining weights
// together (chain_draws.cuh); a second pass is needed if the bounds leave many tokens undecided.
// Each rejected child makes the two long integers A and B of the node longer by 60 bits, which one
// thread of each block computes by multiplications of words, one after another. From the second
// rejected child on, the blocks share a pass over both rows, which sums P and Q over the tokens
// that then remain, where a token remains if P A > Q B. No list of the remaining tokens is needed,
// because B / A never decreases, so that a dropped token stays dropped. A pass stores prefix sums
// by chunks of the row, so that only one more chunk is read to draw the token that replaces
// rejected children (row_draw.cuh). For most tokens, one of two float32 products decides, which are
// P times the lower and the upper bound of A / B. For the rest, the leading bits of A and B decide,
// and if they do not, all bits.
//
// Randomness: depth d uses offset + d, with the purposes draw (in the row kernel), accept (with the
// number k of the child above the purpose), recover and bonus. Determinism: all arithmetic is done
// with integers, and results do not depend on order, grid or batch.
#include <cstdint>

#include "common/philox.h"
#include "cuda/device/early_start.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/filtered_distribution.cuh"
#include "cuda/speculation/sibling_measure.cuh"
#include "cuda/speculation/tree_walk.cuh"

namespace fairdraw::cuda {
namespace {

/// A block has few threads, and there are many blocks, so that one block works while another waits
/// for memory.
constexpr int kThreads = 256;

/// Number of waves of blocks into which a call with trees is divided. A request takes as many
/// passes as its tree needs, while a chain takes one pass. So more blocks than fit on the GPU at
/// once balance the work better.
constexpr int kRoundsOfTrees = 2;

static_assert(kThreads / kWarp <= ResidualSums::kMaxWarpsOfDraw);

class DistributionWalk {
 public:
  __device__ DistributionWalk(const DraftTask& task, const FilteredRows& target,
                              const FilteredRows& draft, const DraftedRequest& request,
                              const TreePath& path, std::int64_t b, const RowCluster& cluster,
                              ScaledWalkMemory& shared)
      : task_(task),
        target_(target),
        draft_(draft),
        request_(request),
        path_(path),
        b_(b),
        cluster_(cluster),
        residual_(shared.residual),
        scales_(shared.scales),
        shared_target_(shared.target),
        shared_draft_(shared.draft),
        draw_(cluster, shared.sums, target.rows.vocab) {}

  /// Walks down the path of one request. All threads of all blocks must call this function, after a
  /// barrier of these blocks.
  __device__ void run() {
    std::int64_t depth = 0;
    RowStatus status;
    for (std::int64_t node = -1;;) {
      const int accepted = accepted_run(node, depth);
      if (const auto i = static_cast<int>(threadIdx.x); cluster_.rank == 0 && i < accepted) {
        path_.stand(depth + i, node + 1 + i, drafted(node + 1 + i));
      }
      node += accepted;
      depth += accepted;
      if (accepted == kWarp) continue;
      const std::int64_t row = request_.row + node + 1;
      status = target_.records[row].status;
      if (status != RowStatus::ok) break;
      std::int64_t child = next_child(node, node + 1);
      if (child == request_.drafts) {
        emit(depth, draw_bonus(row, depth));
        break;
      }
      status = test_children(row, node, depth, child);
      if (status != RowStatus::ok || child == request_.drafts) break;
      if (!path_.has_room(depth)) {
        status = RowStatus::invalid_draft_length;
        break;
      }
      if (cluster_.rank == 0 && threadIdx.x == 0) path_.stand(depth, child, drafted(child));
      ++depth;
      node = child;
    }
    if (cluster_.rank != 0) return;
    __syncthreads();
    path_.end(status, depth, static_cast<int>(threadIdx.x), kThreads);
  }

 private:
  __device__ std::int64_t parent(std::int64_t draft) const { return task_.parent(request_, draft); }
  __device__ std::int32_t drafted(std::int64_t draft) const {
    return task_.drafts.tokens.data[request_.place + draft];
  }
  __device__ std::uint64_t word(std::int64_t depth, Purpose purpose,
                                std::uint32_t sibling = 0) const {
    const PerRequest<std::uint64_t>& seed = task_.target.seed;
    const std::uint64_t offset = task_.target.offset.at(b_) + static_cast<std::uint64_t>(depth);
    return random_word(seed.at(b_), offset, purpose,
                       static_cast<std::uint32_t>(seed.is_array() ? 0 : b_), sibling);
  }
  /// Returns the number of consecutive drafts after `node`, each the first child of the draft
  /// before, that the bounds of the totals accept. One lane tests each of these drafts, so the
  /// number is at most 32. Every warp by itself computes the number.
  __device__ int accepted_run(std::int64_t node, std::int64_t depth) const {
    const std::int64_t lane = lane_of_thread();
    const std::int64_t child = node + 1 + lane;
    const bool stands = child < request_.drafts && parent(child) == child - 1 &&
                        path_.has_room(depth + lane) && is_accepted(child, depth + lane);
    const unsigned others = ~__ballot_sync(kAllLanes, stands);
    return others == 0 ? kWarp : __ffs(static_cast<int>(others)) - 1;
  }
  /// Returns whether the bounds of the totals accept a draft that is the first child of the draft
  /// before.
  __device__ bool is_accepted(std::int64_t child, std::int64_t depth) const {
    const std::int64_t row = request_.row + child;
    const std::int64_t draft_row = task_.draft_row(request_, child - 1);
    if (target_.records[row].status != RowStatus::ok) return false;
    if (draft_.records[draft_row].status != RowStatus::ok) return false;
    const FilteredDistribution draft = distribution_of(draft_, draft_row);
    const std::int32_t token = drafted(child);
    if (draft.weight(token) == 0) return false;
    return test_draft(distribution_of(target_, row), draft, token, word(depth, Purpose::accept)) ==
           DraftDecision::accepts;
  }
  /// Returns the next child of `node` among the drafts from `from` on, or the number of drafts if
  /// there is no such child. Every warp by itself finds the child.
  __device__ std::int64_t next_child(std::int64_t node, std::int64_t from) const {
    return find_draft(from, request_.drafts,
                      [this, node](std::int64_t draft) { return parent(draft) == node; });
  }
  __device__ bool is_taken_out(std::int64_t node, std::int64_t child, std::int32_t token) const {
    if (task_.siblings == SiblingSampling::with_replacement) return false;
    return find_draft(node + 1, child, [this, node, token](std::int64_t draft) {
             return parent(draft) == node && drafted(draft) == token;
           }) != child;
  }
  /// Writes a token, which only the first warp of one block has; all other warps have a negative
  /// number.
  __device__ void emit(std::int64_t depth, std::int32_t token) const {
    if (threadIdx.x == 0 && token >= 0) path_.tokens[depth] = token;
  }

  __device__ std::int32_t draw_bonus(std::int64_t row, std::int64_t depth) {
    shared_target_.set(distribution_of(target_, row));
    const TargetMeasure<WeightSums, FilteredWeight> measure{shared_target_.get()};
    const WeightSums total = draw_.add_up(measure);
    const std::uint64_t t = multiply_high(word(depth, Purpose::bonus), total.p);
    return draw_.find(measure, [t](const WeightSums& sums) { return sums.p > t; });
  }

  /// Tests the children of a node, beginning with the first child. Sets `child` to the accepted
  /// child. If no child is accepted, the function sets `child` to the number of drafts, and writes
  /// the replacement token.
  __device__ RowStatus test_children(std::int64_t row, std::int64_t node, std::int64_t depth,
                                     std::int64_t& child) {
    const std::int64_t draft_row = task_.draft_row(request_, node);
    const RowStatus status = draft_.records[draft_row].status;
    if (status != RowStatus::ok) return status;
    shared_target_.set(distribution_of(target_, row));
    shared_draft_.set(distribution_of(draft_, draft_row));
    const FilteredDistribution& target = shared_target_.get();
    const FilteredDistribution& draft = shared_draft_.get();
    const std::int32_t first = drafted(child);
    if (draft.weight(first) == 0) return RowStatus::impossible_draft;
    const DraftDecision decision = test_draft(target, draft, first, word(depth, Purpose::accept));
    if (decision == DraftDecision::accepts) return RowStatus::ok;
    if (has_summed_) cluster_.sync();
    has_summed_ = true;
    residual_.clear();
    __syncthreads();
    WeightSums without_first;
    const bool has_residual =
        decision == DraftDecision::rejects &&
        add_up_residual(draw_, shared_target_, shared_draft_, residual_, cluster_, without_first);
    if (!target.bounds.is_known() || !draft.bounds.is_known()) {
      const WeightSums totals =
          draw_.add_up(TotalsMeasure<WeightSums, FilteredWeight, FilteredWeight>{{target, draft}});
      shared_target_.know_total(totals.p);
      shared_draft_.know_total(totals.q);
    }
    __syncthreads();  // wait until all threads have used the residual
    if (threadIdx.x == 0) scales_.exact.start();
    __syncthreads();
    std::uint64_t draft_total = draft.total();  // weight of the draft's tokens that can still be
                                                // drawn as further siblings
    WeightSums left(target.total());
    for (std::uint32_t sibling = 0; child < request_.drafts; ++sibling) {
      // The children were counted before, so only a request whose rows overlap with another
      // request's rows can have too many children (drafted_rows.cu).
      if (sibling == kMaxSiblings) return RowStatus::invalid_draft_tree;
      const std::int32_t token = drafted(child);
      const std::uint64_t q = draft.weight(token);
      if (q == 0 || is_taken_out(node, child, token)) return RowStatus::impossible_draft;
      if (scales_.accepts(word(depth, Purpose::accept, sibling), target.weight(token), q,
                          draft_total, left)) {
        return RowStatus::ok;
      }
      __syncthreads();  // wait until all threads have tested the child
      if (threadIdx.x == 0) {
        scales_.exact.reject(draft_total, left.p, left.q);
        scales_.set_bounds();
      }
      __syncthreads();
      left = has_residual && sibling == 0 ? without_first
                                          : draw_.add_up(LeftMeasure(target, draft, scales_));
      if (task_.siblings == SiblingSampling::without_replacement) draft_total -= q;
      child = next_child(node, child + 1);
    }
    const std::uint64_t recover = word(depth, Purpose::recover);
    const auto is_enough = [this, recover, left](const WeightSums& sums) {
      return scales_.prefix_exceeds(recover, sums, left);
    };
    emit(depth, draw_.find(LeftMeasure(target, draft, scales_), is_enough));
    return RowStatus::ok;
  }

  const DraftTask& task_;
  const FilteredRows& target_;
  const FilteredRows& draft_;
  DraftedRequest request_;
  TreePath path_;
  std::int64_t b_;
  RowCluster cluster_;
  ResidualSums& residual_;
  Scales& scales_;
  SharedDistribution& shared_target_;
  SharedDistribution& shared_draft_;
  RowDraw<WeightSums> draw_;
  bool has_summed_ = false;  ///< whether a pass has run at an earlier node, whose sums other blocks
                             ///< may still read
};

__global__ void __launch_bounds__(kThreads, kThreadsAtOnce / kThreads)
    walk_trees_kernel(const __grid_constant__ DraftTask task,
                      const __grid_constant__ FilteredRows target,
                      const __grid_constant__ FilteredRows draft,
                      const __grid_constant__ AcceptTreeResult result, int blocks_log2) {
  __shared__ ScaledWalkMemory shared;
  await_kernel_before();
  const std::int64_t b = blockIdx.x >> blocks_log2;
  const RowCluster cluster = RowCluster::of_grid(blocks_log2);
  cluster.announce();
  const DraftedState state = task.requests[b];
  cluster.await_all();
  if (state.status == RowStatus::ok && state.by_distribution != 0) {
    DistributionWalk(task, target, draft, state.request, TreePath::of(task, result, b), b, cluster,
                     shared)
        .run();
  } else if (cluster.rank == 0 && warp_of_thread() == 0) {
    walk_tree(task, result, b);
  }
}

}  // namespace

cudaError_t walk_trees(const DraftTask& task, const FilteredRows& target, const FilteredRows& draft,
                       const AcceptTreeResult& result, Path path, cudaStream_t stream) {
  const bool draws = task.draft_law != DraftLaw::none && path != Path::block;
  const int rounds = task.parents.given() ? kRoundsOfTrees : 1;
  const int blocks =
      draws ? blocks_of_draw(target.rows.vocab, task.target.batch, kThreads, rounds) : 1;
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/true};
  return launch_spread<walk_trees_kernel>(task.target.batch, {blocks, kThreads}, needs, stream,
                                          task, target, draft, result);
}

}  // namespace fairdraw::cuda
