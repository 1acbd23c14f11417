// Block verification of chains of drafted tokens, for accept_chain (fairdraw/speculative.h).
//
// Contract. The kernel writes, for each request whose rule is block verification, the tokens, the
// number of accepted drafts and a status. The input consists of filtered rows of the target and of
// the draft, and of the tokens that the row kernel has drawn, for requests whose draft distribution
// does not matter. The semantics are those of kernels/serving/drafts/accept_tree.cpp, and the
// arithmetic is that of serving/rules/block_share.h and serving/rules/sibling_scales.h.
//
// Algorithm and cost. Each request has 1 to 8 blocks. Every warp by itself computes bounds of all
// shares, from two weights per position and the bounds of the totals, and finds the longest prefix
// that may pass: its word is below the upper bound of its share. If this is the whole chain, and
// its word is also below the lower bound, only the bonus row is read. Otherwise the exact share is
// needed. It follows from the exact totals of the positions since the last prefix whose two bounds
// are equal, at most with one pass over both rows per position; most prefixes that pass have the
// share 2^64, and need none. Then one pass over the rows of the prefix (or two, if its share is
// below 2^64) sums what is left of the target, and one more chunk is read to draw the token. If the
// prefix does not pass, the next shorter prefix that may pass is tested.
//
// Randomness: position i uses offset + i, with the purposes draw (in the row kernel), accept,
// recover and bonus. Determinism: all arithmetic is done with integers, and results do not depend
// on order, grid or batch.
#include <cstdint>

#include "cuda/device/early_start.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/filtered_distribution.cuh"
#include "cuda/speculation/sibling_measure.cuh"
#include "cuda/speculation/tree_walk.cuh"
#include "serving/rules/block_share.h"

namespace fairdraw::cuda {
namespace {

/// A block has few threads, and there are many blocks, so that one block works while another waits
/// for memory.
constexpr int kThreads = 256;

static_assert(kThreads / kWarp <= ResidualSums::kMaxWarpsOfDraw);

class BlockWalk {
 public:
  __device__ BlockWalk(const DraftTask& task, const FilteredRows& target, const FilteredRows& draft,
                       const DraftedRequest& request, const TreePath& path, std::int64_t b,
                       const RowCluster& cluster, ScaledWalkMemory& shared)
      : task_(task),
        target_(target),
        draft_(draft),
        request_(request),
        path_(path),
        b_(b),
        cluster_(cluster),
        shared_(shared),
        draw_(cluster, shared.sums, target.rows.vocab) {}

  /// Verifies the chain of one request. All threads of all blocks must call this function, after a
  /// barrier of these blocks.
  __device__ void run() {
    std::int64_t prefix = 0;
    const RowStatus status = verify(prefix);
    if (cluster_.rank != 0) return;
    for (std::int64_t i = threadIdx.x; status == RowStatus::ok && i < prefix; i += kThreads) {
      path_.stand(i, i, drafted(i));
    }
    __syncthreads();
    path_.end(status, prefix, static_cast<int>(threadIdx.x), kThreads);
  }

 private:
  /// The longest prefix that may pass, with bounds of its share.
  struct Candidate {
    std::int64_t prefix;
    uint128_t low, high;
    std::int64_t known;     ///< the longest prefix up to this one whose share is known
    uint128_t known_share;  ///< the share of that prefix
  };
  /// The weights of a drafted token, and the totals of its rows.
  struct Position {
    RowStatus status;
    std::uint64_t p, q;
    TotalBounds target, draft;
  };

  __device__ std::int32_t drafted(std::int64_t i) const {
    return task_.drafts.tokens.data[request_.place + i];
  }
  __device__ std::int64_t row_of(std::int64_t i) const { return request_.row + i; }
  __device__ std::int64_t draft_row_of(std::int64_t i) const { return request_.place + i; }
  /// Returns the word that decides whether a prefix passes.
  __device__ std::uint64_t word_of_prefix(std::int64_t prefix) const {
    return task_.word(b_, prefix - 1, Purpose::accept);
  }

  /// Sets `prefix` to the number of accepted drafts, and writes the token after them.
  __device__ RowStatus verify(std::int64_t& prefix) {
    Candidate found;
    const RowStatus status = find_candidate(request_.drafts + 1, found);
    if (status != RowStatus::ok) return status;
    for (;; find_candidate(found.prefix, found)) {
      const uint128_t share = share_of(found);
      prefix = found.prefix;
      if (prefix > 0 && word_of_prefix(prefix) >= share) continue;
      if (prefix < request_.drafts) {
        if (draw_residual(prefix, share)) return RowStatus::ok;
        continue;
      }
      const RowStatus of_last_row = target_.records[row_of(prefix)].status;
      if (of_last_row == RowStatus::ok) draw_bonus(prefix);
      return of_last_row;
    }
  }

  __device__ Position position(std::int64_t i) const {
    Position at{};
    at.status = target_.records[row_of(i)].status;
    if (at.status != RowStatus::ok) return at;
    at.status = draft_.records[draft_row_of(i)].status;
    if (at.status != RowStatus::ok) return at;
    const FilteredDistribution target = distribution_of(target_, row_of(i));
    const FilteredDistribution draft = distribution_of(draft_, draft_row_of(i));
    const std::int32_t token = drafted(i);
    at.p = target.weight(token);
    at.q = draft.weight(token);
    at.target = target.bounds;
    at.draft = draft.bounds;
    if (at.q == 0) at.status = RowStatus::impossible_draft;
    return at;
  }

  /// Finds the longest prefix below `limit` that may pass. Returns the first fault of the
  /// positions that count. Lane i of a warp reads position i; even lanes compute lower bounds of
  /// the shares, and odd lanes upper bounds. Every warp by itself finds the prefix.
  __device__ __noinline__ RowStatus find_candidate(std::int64_t limit, Candidate& found) const {
    const bool is_high = lane_of_thread() % 2 == 1;
    uint128_t low = kWholeShare, high = kWholeShare;
    std::int64_t known = 0;
    uint128_t known_share = kWholeShare;
    found = {0, low, high, known, known_share};
    for (std::int64_t first = 0; first < request_.drafts && high > 0; first += kWarp) {
      Position mine{};
      if (first + lane_of_thread() < request_.drafts) mine = position(first + lane_of_thread());
      const std::int64_t end = min(first + kWarp, request_.drafts);
      for (std::int64_t i = first; i < end && high > 0; ++i) {
        const auto lane = static_cast<int>(i - first);
        const auto status =
            static_cast<RowStatus>(value_of_lane(static_cast<int>(mine.status), lane));
        if (status != RowStatus::ok) return status;
        const std::uint64_t p = value_of_lane(mine.p, lane), q = value_of_lane(mine.q, lane);
        const std::uint64_t target_low = value_of_lane(mine.target.low, lane);
        const std::uint64_t target_high = value_of_lane(mine.target.high, lane);
        const std::uint64_t draft_low = value_of_lane(mine.draft.low, lane);
        const std::uint64_t draft_high = value_of_lane(mine.draft.high, lane);
        const uint128_t share =
            next_share(is_high ? high : low, p, is_high ? target_low : target_high, q,
                       is_high ? draft_high : draft_low);
        low = value_of_lane(share, 0);
        high = value_of_lane(share, 1);
        const std::int64_t prefix = i + 1;
        if (low == high) {
          known = prefix;
          known_share = low;
        }
        if (prefix < limit && word_of_prefix(prefix) < high) {
          found = {prefix, low, high, known, known_share};
        }
      }
    }
    return RowStatus::ok;
  }

  /// Returns a number between the bounds of a share for which the test of the prefix by its share
  /// has the right outcome; it is the exact share if the prefix is shorter than the chain.
  __device__ uint128_t share_of(const Candidate& found) {
    const bool is_chain = found.prefix == request_.drafts;
    if (is_chain && word_of_prefix(found.prefix) < found.low) return found.low;
    uint128_t share = found.known_share;
    for (std::int64_t i = found.known; i < found.prefix; ++i) {
      set_rows(i);
      find_row_totals();
      const FilteredDistribution& target = shared_.target.get();
      const FilteredDistribution& draft = shared_.draft.get();
      const std::int32_t token = drafted(i);
      share = next_share(share, target.weight(token), target.total(), draft.weight(token),
                         draft.total());
    }
    return share;
  }

  /// Begins the passes over a row. The barrier waits until all blocks have used the sums and the
  /// scales of the row before.
  __device__ void begin_passes() {
    if (has_summed_) cluster_.sync();
    has_summed_ = true;
  }
  __device__ void set_rows(std::int64_t i) {
    begin_passes();
    shared_.target.set(distribution_of(target_, row_of(i)));
    shared_.draft.set(distribution_of(draft_, draft_row_of(i)));
  }
  __device__ void find_row_totals() {
    const FilteredDistribution& target = shared_.target.get();
    const FilteredDistribution& draft = shared_.draft.get();
    if (target.bounds.is_known() && draft.bounds.is_known()) return;
    const WeightSums totals =
        draw_.add_up(TotalsMeasure<WeightSums, FilteredWeight, FilteredWeight>{{target, draft}});
    shared_.target.know_total(totals.p);
    shared_.draft.know_total(totals.q);
  }

  /// Writes a token, which only the first warp of one block has; all other warps have a negative
  /// number.
  __device__ void emit(std::int64_t i, std::int32_t token) const {
    if (threadIdx.x == 0 && token >= 0) path_.tokens[i] = token;
  }

  __device__ void draw_bonus(std::int64_t i) {
    begin_passes();
    shared_.target.set(distribution_of(target_, row_of(i)));
    const TargetMeasure<WeightSums, FilteredWeight> measure{shared_.target.get()};
    const WeightSums total = draw_.add_up(measure);
    const std::uint64_t t = multiply_high(task_.word(b_, i, Purpose::bonus), total.p);
    emit(i, draw_.find(measure, [t](const WeightSums& sums) { return sums.p > t; }));
  }

  /// Tests a prefix that is shorter than the chain. If it passes, the function writes the token
  /// after the prefix and returns true.
  __device__ bool draw_residual(std::int64_t prefix, uint128_t share) {
    set_rows(prefix);
    const FilteredDistribution& target = shared_.target.get();
    const FilteredDistribution& draft = shared_.draft.get();
    WeightSums left;
    bool has_sums = false;
    if (share == kWholeShare) {
      shared_.residual.clear();
      __syncthreads();
      has_sums =
          add_up_residual(draw_, shared_.target, shared_.draft, shared_.residual, cluster_, left);
    } else {
      find_row_totals();
    }
    Scales& scales = shared_.scales;
    __syncthreads();  // wait until all threads have used the residual
    if (threadIdx.x == 0) {
      scales.exact.start(share, target.total(), draft.total());
      scales.set_bounds();
    }
    __syncthreads();
    if (!has_sums) left = draw_.add_up(LeftMeasure(target, draft, scales));
    if (prefix > 0 && !(left.p > 0 && scales.passes(word_of_prefix(prefix), target.total(),
                                                    draft.total(), left))) {
      return false;
    }
    const std::uint64_t recover = task_.word(b_, prefix, Purpose::recover);
    const auto is_enough = [&scales, recover, left](const WeightSums& sums) {
      return scales.prefix_exceeds(recover, sums, left);
    };
    emit(prefix, draw_.find(LeftMeasure(target, draft, scales), is_enough));
    return true;
  }

  const DraftTask& task_;
  const FilteredRows& target_;
  const FilteredRows& draft_;
  DraftedRequest request_;
  TreePath path_;
  std::int64_t b_;
  RowCluster cluster_;
  ScaledWalkMemory& shared_;
  RowDraw<WeightSums> draw_;
  bool has_summed_ = false;  ///< whether a pass has run before
};

__global__ void __launch_bounds__(kThreads, kThreadsAtOnce / kThreads)
    walk_blocks_kernel(const __grid_constant__ DraftTask task,
                       const __grid_constant__ FilteredRows target,
                       const __grid_constant__ FilteredRows draft,
                       const __grid_constant__ AcceptTreeResult result,
                       const __grid_constant__ PerRequest<AcceptRule> rules, int blocks_log2) {
  __shared__ ScaledWalkMemory shared;
  await_kernel_before();
  const std::int64_t b = blockIdx.x >> blocks_log2;
  if (rules.at(b) != AcceptRule::block) return;
  const RowCluster cluster = RowCluster::of_grid(blocks_log2);
  cluster.announce();
  const DraftedState state = task.requests[b];
  cluster.await_all();
  if (state.status == RowStatus::ok && state.by_distribution != 0) {
    BlockWalk(task, target, draft, state.request, TreePath::of(task, result, b), b, cluster, shared)
        .run();
  } else if (cluster.rank == 0 && warp_of_thread() == 0) {
    walk_tree(task, result, b);
  }
}

}  // namespace

cudaError_t walk_blocks(const DraftTask& task, const FilteredRows& target,
                        const FilteredRows& draft, const AcceptTreeResult& result,
                        const PerRequest<AcceptRule>& rules, Path path, cudaStream_t stream) {
  const int blocks =
      path == Path::block ? 1 : blocks_of_draw(target.rows.vocab, task.target.batch, kThreads);
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/true};
  return launch_spread<walk_blocks_kernel>(task.target.batch, {blocks, kThreads}, needs, stream,
                                           task, target, draft, result, rules);
}

}  // namespace fairdraw::cuda
