// The walk over a chain of drafted tokens whose rows lie on several ranks
// (fairdraw/cuda_sharded_speculation.h).
//
// Contract. Tokens, the number of accepted drafts and a status of each request, the same on every
// rank and those of verify_chain over whole rows, from rows that are decided: records of this
// shard's columns, and tokens. A request that needs a row which is not decided keeps its results
// as they were. Of blocks that are not right nothing follows but other tokens. The same for
// chain_speculative_sampling, where rows hold probabilities, all of them count, every draft is
// tested, and a draft may be one that its distribution never gives.
//
// Algorithm and cost. Weights of relative_weight.cuh have no tile in them, so that sums of shards
// are sums of rows.
//   weights   1 to 8 blocks a row of the target: what the shard's columns of it and of the draft's
//             row weigh, and the drafted token, where it is one of them. Both rows are read once;
//             all that a walk may reach, because totals decide tests, and where the first
//             rejection is nobody knows before. (Bounds of totals, which decide nearly all tests of
//             an unsharded chain, would leave some open, and a graph has no exchange for these.)
//   walk      1 to 8 blocks a request. All positions are tested side by side, by every block and
//             every rank for itself, from the weights of all shards. Where a draft is rejected, the
//             blocks add up what it leaves of the target in the shard's columns: A P - B Q over the
//             tokens where that is above 0, with both totals known.
//   last      The token lies in one shard's columns: prefix sums of the shards' sums say whose, and
//             its blocks read the rows of that position once more. All others end at once.
//   results   A block a request. Without a distribution nothing else is asked: the target's token
//   of
//             each position is compared with the drafted one.
//
// Randomness: position i uses offset + i; purposes draw (by the rows), accept, recover, bonus.
// Determinism: integers throughout; no dependence on order, grid, batch or boundaries.
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/sharded/sharded_chain.h"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/chain_end.cuh"
#include "cuda/speculation/filtered_distribution.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;

struct Shared {
  ChainSums sums;
  BlockScratch<std::uint64_t> reduction;
};

/// One request, on this rank.
class ShardedChainWalk {
 public:
  __device__ ShardedChainWalk(const ShardedChainTask& task, std::int64_t b)
      : task_(task), b_(b), state_(task.drafts.requests[b]) {}

  __device__ const DraftedState& state() const { return state_; }
  __device__ bool by_distribution() const { return state_.by_distribution != 0; }
  __device__ std::int32_t drafted(std::int64_t i) const {
    return task_.drafts.drafts.tokens.data[state_.request.place + i];
  }
  __device__ std::uint64_t word(std::int64_t position, Purpose purpose) const {
    if (task_.bonus_words == nullptr) return task_.drafts.word(b_, position, purpose);
    if (purpose == Purpose::bonus) return task_.bonus_words[b_];
    const std::uint64_t* words =
        purpose == Purpose::accept ? task_.accept_words : task_.recover_words;
    return words[b_ * task_.drafts.drafts.max_draft + position];
  }
  __device__ Distribution<FilteredWeight> target(std::int64_t i) const {
    return distribution_of(task_.target, state_.request.row + i);
  }
  __device__ Distribution<FilteredWeight> draft(std::int64_t i) const {
    return distribution_of(task_.draft, state_.request.place + i);
  }
  __device__ RowStatus target_status(std::int64_t i) const {
    return task_.target.records[state_.request.row + i].status;
  }
  __device__ RowStatus draft_status(std::int64_t i) const {
    return task_.draft.records[state_.request.place + i].status;
  }

  /// Of all shards.
  __device__ RowWeights weights(std::int64_t i) const {
    RowWeights sum{};
    for (int shard = 0; shard < task_.shards; ++shard) {
      const RowWeights& part = task_.weights.of<RowWeights>(shard)[state_.request.row + i];
      sum.target += part.target;
      sum.draft += part.draft;
      sum.token_target += part.token_target;
      sum.token_draft += part.token_draft;
    }
    return sum;
  }

  /// Where the chain ends; by all threads of a block. Of a request whose distribution is known:
  /// when weights have come.
  __device__ Position end(BlockScratch<std::uint64_t>& scratch) const {
    if (state_.status != RowStatus::ok) return {0, Ending::fails, state_.status};
    if (task_.drafts.tests_all) {
      const Position bad = first_end(
          0, state_.request.drafts, [this](std::int64_t i) { return look_at_rows(i); }, scratch);
      if (bad.ending != Ending::stops) return bad;
    }
    return first_end(
        0, state_.request.drafts, [this](std::int64_t i) { return look_at(i); }, scratch);
  }
  /// A draft by its own test, as if the chain had got there.
  __device__ bool passes(std::int64_t i) const {
    const RowWeights sum = weights(i);
    return passes_test(word(i, Purpose::accept), sum.token_target, sum.target, sum.token_draft,
                       sum.draft);
  }

 private:
  /// All rows count, the draft's of a position before the target's.
  __device__ Position look_at_rows(std::int64_t i) const {
    const bool is_bonus = i == state_.request.drafts;
    const RowStatus of_draft = is_bonus ? RowStatus::ok : draft_status(i);
    if (of_draft != RowStatus::ok) return failed(i, of_draft);
    if (const RowStatus status = target_status(i); status != RowStatus::ok) {
      return failed(i, status);
    }
    return {i, is_bonus ? Ending::stops : Ending::goes_on, RowStatus::ok};
  }
  __device__ Position look_at(std::int64_t i) const {
    const RowStatus status = target_status(i);
    if (status != RowStatus::ok) return failed(i, status);
    if (i == state_.request.drafts) return {i, Ending::stops, RowStatus::ok};
    if (!by_distribution()) {
      const bool stands = task_.drafts.draws.tokens[state_.request.row + i] == drafted(i);
      return {i, stands ? Ending::goes_on : Ending::stops, RowStatus::ok};
    }
    const RowStatus of_draft = draft_status(i);
    if (of_draft != RowStatus::ok) return failed(i, of_draft);
    if (!task_.drafts.tests_all && weights(i).token_draft == 0) {
      return {i, Ending::fails, RowStatus::impossible_draft};
    }
    return {i, passes(i) ? Ending::goes_on : Ending::stops, RowStatus::ok};
  }
  __device__ static Position failed(std::int64_t i, RowStatus status) {
    return {i, status == RowStatus::inactive ? Ending::waits : Ending::fails, status};
  }

  const ShardedChainTask& task_;
  std::int64_t b_;
  DraftedState state_;
};

__device__ RowCluster cluster_of(int blocks) {
  return {blocks, static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks))};
}
__device__ std::int64_t number_of(int blocks) { return blockIdx.x / static_cast<unsigned>(blocks); }

/// A cluster a row of the target.
__global__ void __launch_bounds__(kThreads)
    weigh_chains_kernel(const __grid_constant__ ShardedChainTask task, int blocks) {
  __shared__ Shared shared;
  const RowCluster cluster = cluster_of(blocks);
  const std::int64_t row = number_of(blocks);
  if (task.drafts.of_target.active[row] == 0) return;
  const ShardedChainWalk walk(task, task.drafts.draws.owner[row]);
  if (!walk.by_distribution()) return;
  const std::int64_t i = row - walk.state().request.row;
  const bool is_bonus = i == walk.state().request.drafts;
  if (walk.target_status(i) != RowStatus::ok) return;
  if (!is_bonus && walk.draft_status(i) != RowStatus::ok) return;
  cluster.announce();
  RowWeights mine{};
  const std::int64_t columns = task.target.rows.vocab;
  cluster.await_all();
  if (columns > 0) {
    ChainDraw draw(cluster, shared.sums, columns);
    Distribution<FilteredWeight> target = walk.target(i);
    if (is_bonus) {
      const TargetMeasure<uint128_t, FilteredWeight> measure{target};
      mine.target = static_cast<std::uint64_t>(draw.add_up(measure));
    } else {
      Distribution<FilteredWeight> draft = walk.draft(i);
      const TotalsMeasure<uint128_t, FilteredWeight, FilteredWeight> measure{{target, draft}};
      const uint128_t totals = draw.add_up(measure);
      mine.target = static_cast<std::uint64_t>(totals >> 64);
      mine.draft = static_cast<std::uint64_t>(totals);
      const std::int64_t column = walk.drafted(i) - task.begin;
      if (column >= 0 && column < columns) {
        mine.token_target = target.weight(column);
        mine.token_draft = draft.weight(column);
      }
    }
  }
  if (cluster.rank == 0 && threadIdx.x == 0) task.weights.mine<RowWeights>()[row] = mine;
}

/// A cluster a request.
__global__ void __launch_bounds__(kThreads)
    walk_sharded_chains_kernel(const __grid_constant__ ShardedChainTask task, int blocks) {
  __shared__ Shared shared;
  const RowCluster cluster = cluster_of(blocks);
  const std::int64_t b = number_of(blocks);
  const ShardedChainWalk walk(task, b);
  if (!walk.by_distribution()) return;
  const Position end = walk.end(shared.reduction);
  RowWeights totals{};
  if (end.ending == Ending::stops) totals = walk.weights(end.number);
  const bool leads = cluster.rank == 0 && threadIdx.x == 0;
  if (leads) {
    task.ends[b] = {end.number, static_cast<std::uint32_t>(end.ending), end.status, totals.target,
                    totals.draft};
  }
  uint128_t left = 0;
  const bool rejects = end.ending == Ending::stops && end.number < walk.state().request.drafts;
  if (rejects && task.target.rows.vocab > 0) {
    cluster.announce();
    Distribution<FilteredWeight> target = walk.target(end.number);
    Distribution<FilteredWeight> draft = walk.draft(end.number);
    target.bounds = TotalBounds::known(totals.target);
    draft.bounds = TotalBounds::known(totals.draft);
    ChainDraw draw(cluster, shared.sums, task.target.rows.vocab);
    cluster.await_all();
    left = draw.add_up(ResidualMeasure<FilteredWeight, FilteredWeight>(target, draft));
  }
  if (leads) task.left.mine<sharded::Sum128>()[b] = left;
}

/// Whose columns have a place, and the place there.
struct ShardPlace {
  int shard;
  uint128_t place;
};

/// sum_of(shard): of a shard's columns. The last one's, if blocks were not right.
template <class SumOf>
__device__ ShardPlace find_shard(uint128_t place, int shards, const SumOf& sum_of) {
  int shard = 0;
  for (; shard + 1 < shards; ++shard) {
    const uint128_t sum = sum_of(shard);
    if (place < sum) break;
    place -= sum;
  }
  return {shard, place};
}

/// The token at a place among this shard's columns, by the blocks of a cluster: in one block's
/// first warp, kElsewhere in all others; kNothing, everywhere, if blocks were not right.
template <class Measure>
__device__ std::int32_t token_at(ChainDraw& draw, const Measure& measure, uint128_t place) {
  if (draw.add_up(measure) <= place) return ChainDraw::kNothing;
  return draw.find(measure, [place](const uint128_t& sum) { return sum > place; });
}

/// A cluster a request.
__global__ void __launch_bounds__(kThreads)
    draw_last_tokens_kernel(const __grid_constant__ ShardedChainTask task, int blocks) {
  __shared__ Shared shared;
  const RowCluster cluster = cluster_of(blocks);
  const std::int64_t b = number_of(blocks);
  const ShardedChainWalk walk(task, b);
  if (!walk.by_distribution()) return;
  const ChainEnd end = task.ends[b];
  std::int32_t& last = task.last.mine<std::int32_t>()[b];
  const bool leads = cluster.rank == 0 && threadIdx.x == 0;
  if (static_cast<Ending>(end.ending) != Ending::stops) {
    if (leads) last = -1;
    return;
  }
  const std::int64_t i = end.number;
  const bool rejects = i < walk.state().request.drafts;
  const std::uint64_t word = walk.word(i, rejects ? Purpose::recover : Purpose::bonus);
  uint128_t left = 0;
  for (int shard = 0; rejects && shard < task.shards; ++shard) {
    left += task.left.of<sharded::Sum128>(shard)[b].value();
  }
  // Nothing is left only of equal distributions: then the target itself is drawn from.
  ShardPlace at{};
  if (left > 0) {
    at = find_shard(multiply_high(word, left), task.shards,
                    [&](int shard) { return task.left.of<sharded::Sum128>(shard)[b].value(); });
  } else {
    const std::int64_t row = walk.state().request.row + i;
    at = find_shard(multiply_high(word, end.target_total), task.shards, [&](int shard) {
      return static_cast<uint128_t>(task.weights.of<RowWeights>(shard)[row].target);
    });
  }
  if (at.shard != task.shard || task.target.rows.vocab == 0) {
    if (leads) last = -1;
    return;
  }
  cluster.announce();
  Distribution<FilteredWeight> target = walk.target(i);
  target.bounds = TotalBounds::known(end.target_total);
  ChainDraw draw(cluster, shared.sums, task.target.rows.vocab);
  cluster.await_all();
  std::int32_t token = ChainDraw::kNothing;
  if (left > 0) {
    Distribution<FilteredWeight> draft = walk.draft(i);
    draft.bounds = TotalBounds::known(end.draft_total);
    token =
        token_at(draw, ResidualMeasure<FilteredWeight, FilteredWeight>(target, draft), at.place);
  } else {
    token = token_at(draw, TargetMeasure<uint128_t, FilteredWeight>{target}, at.place);
  }
  if (token == ChainDraw::kNothing) {
    if (leads) last = -1;
  } else if (token >= 0 && threadIdx.x == 0) {
    last = task.begin + token;
  }
}

/// A block a request.
__global__ void __launch_bounds__(kThreads)
    write_chains_kernel(const __grid_constant__ ShardedChainTask task,
                        const __grid_constant__ VerifyChainResult result) {
  __shared__ BlockScratch<std::uint64_t> scratch;
  const std::int64_t b = blockIdx.x;
  const ShardedChainWalk walk(task, b);
  Position end{};
  std::int32_t last = -1;
  if (walk.state().status == RowStatus::ok && walk.by_distribution()) {
    const ChainEnd& known = task.ends[b];
    end = {known.number, static_cast<Ending>(known.ending), known.status};
    for (int shard = 0; shard < task.shards; ++shard) {
      last = ::max(last, task.last.of<std::int32_t>(shard)[b]);
    }
  } else {
    end = walk.end(scratch);
    if (end.ending == Ending::stops) {
      last = task.drafts.draws.tokens[walk.state().request.row + end.number];
    }
  }
  if (end.ending == Ending::waits) return;
  const bool ok = end.ending == Ending::stops;
  const std::int64_t width = task.drafts.drafts.max_draft + 1;
  std::int32_t* tokens = result.tokens.data + b * width;
  for (std::int64_t i = threadIdx.x; i < width; i += kThreads) {
    std::int32_t token = -1;
    if (ok && i < end.number) token = walk.drafted(i);
    if (ok && i == end.number) token = last;
    tokens[i] = token;
  }
  auto counted = static_cast<std::uint64_t>(end.number);
  if (task.drafts.tests_all) {
    std::uint64_t mine = 0;
    for (std::int64_t i = threadIdx.x; ok && i < walk.state().request.drafts; i += kThreads) {
      mine += walk.passes(i) ? 1U : 0U;
    }
    counted = reduce_block(mine, scratch, Add{});
  }
  if (threadIdx.x != 0) return;
  if (result.accepted.given()) {
    result.accepted.data[b] = ok ? static_cast<std::int32_t>(counted) : 0;
  }
  if (task.emitted != nullptr) {
    task.emitted[b] = ok ? static_cast<std::int32_t>(end.number) : 0;
  }
  if (result.statuses.given()) result.statuses.data[b] = end.status;
}

/// Clusters of the blocks that share a draw.
cudaError_t launch(void (*kernel)(ShardedChainTask, int), std::int64_t count,
                   const ShardedChainTask& task, Path path, cudaStream_t stream) {
  int blocks = 1;
  if (path != Path::block) {
    blocks = blocks_of_draw(task.target.rows.vocab, count, kThreads);
  }
  return launch_clusters(kernel, count, blocks, kThreads, stream, task, blocks);
}

}  // namespace

cudaError_t weigh_chains(const ShardedChainTask& task, Path path, cudaStream_t stream) {
  if (task.target.rows.rows == 0) return cudaSuccess;
  return launch(weigh_chains_kernel, task.target.rows.rows, task, path, stream);
}

cudaError_t walk_sharded_chains(const ShardedChainTask& task, Path path, cudaStream_t stream) {
  return launch(walk_sharded_chains_kernel, task.drafts.target.batch, task, path, stream);
}

cudaError_t draw_last_tokens(const ShardedChainTask& task, Path path, cudaStream_t stream) {
  return launch(draw_last_tokens_kernel, task.drafts.target.batch, task, path, stream);
}

cudaError_t write_chains(const ShardedChainTask& task, const VerifyChainResult& result,
                         cudaStream_t stream) {
  return launch_clusters(write_chains_kernel, task.drafts.target.batch, 1, kThreads, stream, task,
                         result);
}

}  // namespace fairdraw::cuda
