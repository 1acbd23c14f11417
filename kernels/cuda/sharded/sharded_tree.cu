// The walk down trees of drafted tokens whose rows lie on several ranks
// (fairdraw/cuda_sharded_speculation.h).
//
// Contract. Tokens, nodes, the number of accepted drafts and a status of each request, the same on
// every rank and those of verify_tree over whole rows, from rows that are decided. A request that
// needs a row which is not decided keeps its results as they were. Of blocks that are not right
// nothing follows but other tokens.
//
// Algorithm and cost. That of verify_tree_distribution.cu, cut where a sum over the row is needed.
//   weights   1 to 8 blocks a row of the target: what the shard's columns of it and, where it has
//             children, of the draft's row weigh; and the drafted token that leads to it in its
//             parent's rows. All rows, because nobody knows the path.
//   advance   A warp a request: children are tested until one is rejected, or the path ends. Every
//             rank does that for itself, with the same result: a test needs weights of tokens, and
//             sums over all shards. A rejected child makes the two long integers of the node
//             longer, which stay in global memory from one exchange to the next.
//   answer    1 to 8 blocks a request: sums of P and Q over what is left in the shard's columns;
//   or,
//             on the shard that has it, the token that ends the path. Others end at once.
//   results   A warp a request. Without a distribution nothing else is asked: the target's token of
//             each node is looked for among its children.
// A path asks once for each rejected child and once for its last token: no more often than there
// are drafts, and once.
//
// Randomness: depth d uses offset + d; purposes draw (by the rows), accept (child k of a node with
// k above the purpose), recover, bonus. Determinism: integers throughout; no dependence on order,
// grid, batch or boundaries.
#include <cstdint>

#include "common/philox.h"
#include "common/wide_integers.h"
#include "cuda/device/row_launch.h"
#include "cuda/sharded/sharded_chain.h"
#include "cuda/speculation/sibling_measure.cuh"
#include "cuda/speculation/tree_walk.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
using TreeDraw = RowDraw<WeightSums>;

/// Sums of weights are no larger; those of blocks that are not right are cut.
constexpr std::uint64_t kLargestSum = std::uint64_t{1} << 60;

/// One request, on this rank.
class TreeRequest {
 public:
  __device__ TreeRequest(const ShardedTreeTask& task, std::int64_t b)
      : task_(task.chain), b_(b), state_(task.chain.drafts.requests[b]) {}

  __device__ const DraftedState& state() const { return state_; }
  __device__ bool is_walked() const {
    return state_.status == RowStatus::ok && state_.by_distribution != 0;
  }
  __device__ std::int64_t drafts() const { return state_.request.drafts; }
  __device__ std::int64_t row(std::int64_t node) const { return state_.request.row + node + 1; }
  __device__ std::int32_t parent(std::int64_t draft) const {
    return task_.drafts.parents.data[state_.request.place + draft];
  }
  __device__ std::int32_t drafted(std::int64_t draft) const {
    return task_.drafts.drafts.tokens.data[state_.request.place + draft];
  }
  __device__ std::uint64_t word(std::int64_t depth, Purpose purpose,
                                std::uint32_t sibling = 0) const {
    const PerRequest<std::uint64_t>& seed = task_.drafts.target.seed;
    const std::uint64_t offset =
        task_.drafts.target.offset.at(b_) + static_cast<std::uint64_t>(depth);
    return random_word(seed.at(b_), offset, purpose,
                       static_cast<std::uint32_t>(seed.is_array() ? 0 : b_), sibling);
  }
  __device__ FilteredDistribution target(std::int64_t node) const {
    return distribution_of(task_.target, row(node));
  }
  __device__ FilteredDistribution draft(std::int64_t node) const {
    return distribution_of(task_.draft, row(node));
  }
  __device__ RowStatus target_status(std::int64_t node) const {
    return task_.target.records[row(node)].status;
  }
  __device__ RowStatus draft_status(std::int64_t node) const {
    return task_.draft.records[row(node)].status;
  }
  __device__ bool has_children(std::int64_t node) const {
    return task_.drafts.of_draft.active[row(node)] != 0;
  }

  /// From draft `from` on; the number of drafts where there is none. By a warp.
  __device__ std::int64_t next_child(std::int64_t node, std::int64_t from) const {
    return find_draft(from, drafts(),
                      [this, node](std::int64_t draft) { return parent(draft) == node; });
  }
  __device__ bool is_taken_out(std::int64_t node, std::int64_t child, std::int32_t token) const {
    if (task_.drafts.siblings == SiblingSampling::with_replacement) return false;
    return find_draft(node + 1, child, [this, node, token](std::int64_t draft) {
             return parent(draft) == node && drafted(draft) == token;
           }) != child;
  }

  /// Of all shards: sums of a node's rows.
  __device__ WeightSums sums(std::int64_t node) const {
    WeightSums sum{};
    for (int shard = 0; shard < task_.shards; ++shard) {
      const RowWeights& part = weights(shard, row(node));
      sum += WeightSums(part.target, part.draft);
    }
    return cut(sum);
  }
  /// And what a drafted token weighs there.
  __device__ WeightSums token_weights(std::int64_t draft) const {
    WeightSums sum{};
    for (int shard = 0; shard < task_.shards; ++shard) {
      const RowWeights& part = weights(shard, row(draft));
      sum += WeightSums(part.token_target, part.token_draft);
    }
    return cut(sum);
  }
  __device__ const RowWeights& weights(int shard, std::int64_t row) const {
    return task_.weights.of<RowWeights>(shard)[row];
  }
  __device__ const TreeAnswer& answer(int shard) const {
    return task_.left.of<TreeAnswer>(shard)[b_];
  }
  __device__ static WeightSums cut(const WeightSums& sum) {
    return WeightSums(::min(sum.p, kLargestSum), ::min(sum.q, kLargestSum));
  }

 private:
  const ShardedChainTask& task_;
  std::int64_t b_;
  DraftedState state_;
};

/// A walk as far as it can go, by one warp whose lanes all know its state.
class TreeAdvance {
 public:
  __device__ TreeAdvance(const ShardedTreeTask& task, const TreeRequest& request, std::int64_t b)
      : request_(request),
        shards_(task.chain.shards),
        replaces_(task.chain.drafts.siblings == SiblingSampling::with_replacement),
        max_depth_(task.chain.drafts.max_depth),
        path_(task.paths + b * task.chain.drafts.max_depth),
        scales_(task.scales[b]),
        walk_(task.walks[b]) {}

  __device__ const TreeWalkState& state() const { return walk_; }

  __device__ void begin() {
    walk_ = {};
    walk_.node = -1;
    walk_.asks = TreeAsks::enters;
    walk_.last_token = -1;
  }

  __device__ void run() {
    switch (walk_.asks) {
      case TreeAsks::nothing:
      case TreeAsks::rows:
        return;
      case TreeAsks::enters:
        if (!enter()) return;
        break;
      case TreeAsks::sums:
        take_sums();
        break;
      case TreeAsks::left_token:
      case TreeAsks::target_token:
        walk_.last_token = static_cast<std::int32_t>(request_.answer(walk_.owner).p);
        walk_.asks = TreeAsks::nothing;
        return;
    }
    while (test_child()) {
    }
  }

 private:
  __device__ static bool leads() { return lane_of_thread() == 0; }

  __device__ void end(RowStatus status) {
    walk_.status = status;
    walk_.asks = status == RowStatus::inactive ? TreeAsks::rows : TreeAsks::nothing;
  }

  /// The rows of a node; false where the walk stops here.
  __device__ bool enter() {
    const std::int64_t node = walk_.node;
    if (const RowStatus status = request_.target_status(node); status != RowStatus::ok) {
      end(status);
      return false;
    }
    walk_.child = request_.next_child(node, node + 1);
    const WeightSums sums = request_.sums(node);
    walk_.p_left = sums.p;
    walk_.q_left = 0;  // times B, which is 0
    walk_.draft_total = sums.q;
    walk_.sibling = 0;
    if (walk_.child == request_.drafts()) {
      place_in_target(request_.word(walk_.depth, Purpose::bonus), sums.p);
      return false;
    }
    if (const RowStatus status = request_.draft_status(node); status != RowStatus::ok) {
      end(status);
      return false;
    }
    __syncwarp();
    if (leads()) scales_.exact.start();
    __syncwarp();
    return true;
  }

  /// False where the walk stops here.
  __device__ bool test_child() {
    if (walk_.child == request_.drafts()) {
      place_in_left();
      return false;
    }
    // Counted before, except for requests whose rows overlap (drafted_rows.cu).
    if (walk_.sibling == kMaxSiblings) return fail(RowStatus::invalid_draft_tree);
    const std::int32_t token = request_.drafted(walk_.child);
    const WeightSums weights = request_.token_weights(walk_.child);
    if (weights.q == 0 || request_.is_taken_out(walk_.node, walk_.child, token)) {
      return fail(RowStatus::impossible_draft);
    }
    const WeightSums left(walk_.p_left, walk_.q_left);
    const std::uint64_t word = request_.word(walk_.depth, Purpose::accept, walk_.sibling);
    if (scales_.accepts(word, weights.p, weights.q, walk_.draft_total, left)) {
      if (walk_.depth >= max_depth_) return fail(RowStatus::invalid_draft_length);
      if (leads()) path_[walk_.depth] = static_cast<std::int32_t>(walk_.child);
      ++walk_.depth;
      walk_.node = walk_.child;
      return enter();
    }
    __syncwarp();  // all have tested
    if (leads()) {
      scales_.exact.reject(walk_.draft_total, left.p, left.q);
      scales_.set_bounds();
    }
    __syncwarp();
    if (!replaces_) walk_.draft_total -= ::min(weights.q, walk_.draft_total);
    walk_.asks = TreeAsks::sums;
    return false;
  }
  __device__ bool fail(RowStatus status) {
    end(status);
    return false;
  }

  __device__ void take_sums() {
    WeightSums left{};
    for (int shard = 0; shard < shards_; ++shard) left += answered(shard);
    left = TreeRequest::cut(left);
    walk_.p_left = left.p;
    walk_.q_left = ::min(left.q, walk_.draft_total);
    walk_.child = request_.next_child(walk_.node, walk_.child + 1);
    ++walk_.sibling;
  }
  __device__ WeightSums answered(int shard) const {
    const TreeAnswer& answer = request_.answer(shard);
    return WeightSums(answer.p, answer.q);
  }

  /// By prefix sums of P over shards; the last one's, if blocks were not right.
  __device__ void place_in_target(std::uint64_t word, std::uint64_t total) {
    std::uint64_t place = static_cast<std::uint64_t>(multiply_high(word, uint128_t{total}));
    int shard = 0;
    for (; shard + 1 < shards_; ++shard) {
      const std::uint64_t part = request_.weights(shard, request_.row(walk_.node)).target;
      if (place < part) break;
      place -= part;
    }
    walk_.owner = shard;
    walk_.p_before = place;
    walk_.asks = TreeAsks::target_token;
  }

  /// By prefix sums of what is left, whose parts have just been answered. Nothing is left only
  /// where the two distributions are equal: then the target itself is drawn from.
  __device__ void place_in_left() {
    walk_.word = request_.word(walk_.depth, Purpose::recover);
    if (walk_.p_left == 0) {
      place_in_target(walk_.word, request_.sums(walk_.node).p);
      return;
    }
    const WeightSums left(walk_.p_left, walk_.q_left);
    WeightSums before{};
    int shard = 0;
    for (; shard + 1 < shards_; ++shard) {
      WeightSums until = before;
      until += answered(shard);
      if (scales_.prefix_exceeds(walk_.word, until, left)) break;
      before = until;
    }
    walk_.owner = shard;
    walk_.p_before = before.p;
    walk_.q_before = before.q;
    walk_.asks = TreeAsks::left_token;
  }

  const TreeRequest& request_;
  int shards_;
  bool replaces_;
  std::int64_t max_depth_;
  std::int32_t* path_;
  Scales& scales_;
  TreeWalkState walk_;
};

__device__ RowCluster cluster_of(int blocks) {
  return {blocks, static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks))};
}
__device__ std::int64_t number_of(int blocks) { return blockIdx.x / static_cast<unsigned>(blocks); }

/// A cluster a row of the target.
__global__ void __launch_bounds__(kThreads)
    weigh_trees_kernel(const __grid_constant__ ShardedTreeTask task, int blocks) {
  __shared__ RowSums<WeightSums> sums;
  const ShardedChainTask& chain = task.chain;
  const RowCluster cluster = cluster_of(blocks);
  const std::int64_t row = number_of(blocks);
  if (chain.drafts.of_target.active[row] == 0) return;
  const TreeRequest request(task, chain.drafts.draws.owner[row]);
  if (!request.is_walked()) return;
  const std::int64_t node = row - request.state().request.row - 1;
  const std::int64_t columns = chain.target.rows.vocab;
  RowWeights mine{};
  if (cluster.rank == 0 && threadIdx.x == 0 && node >= 0) {
    const std::int64_t parent = request.parent(node);
    const std::int64_t column = request.drafted(node) - chain.begin;
    if (column >= 0 && column < columns && request.target_status(parent) == RowStatus::ok &&
        request.draft_status(parent) == RowStatus::ok) {
      mine.token_target = request.target(parent).weight(column);
      mine.token_draft = request.draft(parent).weight(column);
    }
  }
  const bool has_target = request.target_status(node) == RowStatus::ok;
  const bool has_draft =
      has_target && request.has_children(node) && request.draft_status(node) == RowStatus::ok;
  if (has_target && columns > 0) {
    cluster.announce();
    FilteredDistribution target = request.target(node);
    TreeDraw draw(cluster, sums, columns);
    cluster.await_all();
    if (has_draft) {
      FilteredDistribution draft = request.draft(node);
      const TotalsMeasure<WeightSums, FilteredWeight, FilteredWeight> measure{{target, draft}};
      const WeightSums totals = draw.add_up(measure);
      mine.target = totals.p;
      mine.draft = totals.q;
    } else {
      mine.target = draw.add_up(TargetMeasure<WeightSums, FilteredWeight>{target}).p;
    }
  }
  if (cluster.rank == 0 && threadIdx.x == 0) chain.weights.mine<RowWeights>()[row] = mine;
}

/// A warp a request.
__global__ void __launch_bounds__(kWarp)
    advance_trees_kernel(const __grid_constant__ ShardedTreeTask task, bool begins) {
  const std::int64_t b = blockIdx.x;
  const TreeRequest request(task, b);
  if (!request.is_walked()) return;
  TreeAdvance walk(task, request, b);
  if (begins) walk.begin();
  walk.run();
  __syncwarp();
  if (lane_of_thread() == 0) task.walks[b] = walk.state();
}

/// A cluster a request.
__global__ void __launch_bounds__(kThreads)
    answer_trees_kernel(const __grid_constant__ ShardedTreeTask task, int blocks) {
  __shared__ RowSums<WeightSums> shared;
  const ShardedChainTask& chain = task.chain;
  const RowCluster cluster = cluster_of(blocks);
  const std::int64_t b = number_of(blocks);
  const TreeRequest request(task, b);
  if (!request.is_walked()) return;
  const TreeWalkState walk = task.walks[b];
  TreeAnswer& answer = chain.left.mine<TreeAnswer>()[b];
  const bool leads = cluster.rank == 0 && threadIdx.x == 0;
  const bool asks_token = walk.asks == TreeAsks::left_token || walk.asks == TreeAsks::target_token;
  const bool answers = walk.asks == TreeAsks::sums || (asks_token && walk.owner == chain.shard);
  if (!answers || chain.target.rows.vocab == 0) {
    if (leads) answer = {};
    return;
  }
  cluster.announce();
  FilteredDistribution target = request.target(walk.node);
  TreeDraw draw(cluster, shared, chain.target.rows.vocab);
  cluster.await_all();
  std::int32_t token = TreeDraw::kNothing;
  if (walk.asks == TreeAsks::target_token) {
    const TargetMeasure<WeightSums, FilteredWeight> measure{target};
    const auto is_enough = [&walk](const WeightSums& sum) { return sum.p > walk.p_before; };
    if (is_enough(draw.add_up(measure))) token = draw.find(measure, is_enough);
  } else {
    FilteredDistribution draft = request.draft(walk.node);
    const Scales& scales = task.scales[b];
    const LeftMeasure measure(target, draft, scales);
    const WeightSums sum = draw.add_up(measure);
    if (walk.asks == TreeAsks::sums) {
      if (leads) answer = {sum.p, sum.q};
      return;
    }
    const WeightSums left(walk.p_left, walk.q_left);
    const auto is_enough = [&](const WeightSums& part) {
      WeightSums until(walk.p_before, walk.q_before);
      until += part;
      return scales.prefix_exceeds(walk.word, until, left);
    };
    if (is_enough(sum)) token = draw.find(measure, is_enough);
  }
  if (token == TreeDraw::kNothing) {  // everywhere, of blocks that were not right
    if (leads) answer = {};
  } else if (token >= 0 && threadIdx.x == 0) {
    answer = {static_cast<std::uint64_t>(chain.begin + token), 0};
  }
}

/// How a path ends.
struct TreeEnd {
  RowStatus status;  ///< inactive: a row that it needs is not decided
  std::int64_t depth;
  std::int32_t last_token;
};

/// Where a child has the token that is drawn after its parent the path goes on there, else it ends.
/// By a warp.
__device__ TreeEnd walk_by_draw(const ShardedTreeTask& task, const TreeRequest& request,
                                std::int32_t* path) {
  const DraftTask& drafts = task.chain.drafts;
  std::int64_t depth = 0;
  for (std::int64_t node = -1;; ++depth) {
    const RowStatus status = request.target_status(node);
    if (status != RowStatus::ok) return {status, 0, -1};
    const std::int32_t token = drafts.draws.tokens[request.row(node)];
    const std::int64_t child =
        find_draft(node + 1, request.drafts(), [&request, node, token](std::int64_t draft) {
          return request.parent(draft) == node && request.drafted(draft) == token;
        });
    if (child == request.drafts()) return {RowStatus::ok, depth, token};
    if (depth >= drafts.max_depth) return {RowStatus::invalid_draft_length, 0, -1};
    if (lane_of_thread() == 0) path[depth] = static_cast<std::int32_t>(child);
    node = child;
  }
}

/// A warp a request.
__global__ void __launch_bounds__(kWarp)
    write_trees_kernel(const __grid_constant__ ShardedTreeTask task,
                       const __grid_constant__ VerifyTreeResult result) {
  const std::int64_t b = blockIdx.x;
  const DraftTask& drafts = task.chain.drafts;
  const TreeRequest request(task, b);
  std::int32_t* path = task.paths + b * drafts.max_depth;
  TreeEnd end{request.state().status, 0, -1};
  bool waits = false;
  if (request.is_walked()) {
    const TreeWalkState& walk = task.walks[b];
    waits = walk.asks != TreeAsks::nothing;
    end = {walk.status, walk.depth, walk.last_token};
  } else if (end.status == RowStatus::ok) {
    end = walk_by_draw(task, request, path);
    waits = end.status == RowStatus::inactive;
  }
  if (waits) return;
  __syncwarp();
  const TreePath results = TreePath::of(drafts, result, b);
  for (std::int64_t i = lane_of_thread(); end.status == RowStatus::ok && i < end.depth;
       i += kWarp) {
    results.stand(i, path[i], request.drafted(path[i]));
  }
  if (end.status == RowStatus::ok && lane_of_thread() == 0) {
    results.tokens[end.depth] = end.last_token;
  }
  results.end(end.status, end.depth, lane_of_thread(), kWarp);
}

/// Clusters of the blocks that share a draw.
cudaError_t launch(void (*kernel)(ShardedTreeTask, int), std::int64_t count,
                   const ShardedTreeTask& task, Path path, cudaStream_t stream) {
  int blocks = 1;
  if (path != Path::block) {
    blocks = blocks_of_draw(task.chain.target.rows.vocab, count, kThreads);
  }
  return launch_clusters(kernel, count, blocks, kThreads, stream, task, blocks);
}

}  // namespace

std::int64_t scales_bytes() { return static_cast<std::int64_t>(sizeof(Scales)); }

cudaError_t weigh_trees(const ShardedTreeTask& task, Path path, cudaStream_t stream) {
  if (task.chain.target.rows.rows == 0) return cudaSuccess;
  return launch(weigh_trees_kernel, task.chain.target.rows.rows, task, path, stream);
}

cudaError_t advance_trees(const ShardedTreeTask& task, bool begins, cudaStream_t stream) {
  return launch_clusters(advance_trees_kernel, task.chain.drafts.target.batch, 1, kWarp, stream,
                         task, begins);
}

cudaError_t answer_trees(const ShardedTreeTask& task, Path path, cudaStream_t stream) {
  return launch(answer_trees_kernel, task.chain.drafts.target.batch, task, path, stream);
}

cudaError_t write_trees(const ShardedTreeTask& task, const VerifyTreeResult& result,
                        cudaStream_t stream) {
  return launch_clusters(write_trees_kernel, task.chain.drafts.target.batch, 1, kWarp, stream, task,
                         result);
}

}  // namespace fairdraw::cuda
