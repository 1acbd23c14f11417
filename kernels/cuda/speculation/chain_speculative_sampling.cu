// chain_speculative_sampling (fairdraw/sampling.h): verification of drafted tokens, in integers.
//
// Contract: see the declaration. Semantics: Leviathan et al. 2023, Chen et al. 2023, in the
// arithmetic of chain_draws.cuh.
// All positions are validated, those after a rejection too: a draft token out of range, then the
// first bad row in the order of positions, draft before target, fails the request.
//
// Algorithm and cost. Two launches. First all rows of all requests at once: what is wrong with
// each, its maximum and the sum of its weights (weigh_rows.cu, one read of everything). Then 1 to 8
// blocks a request: each position's test needs two weights and two sums, so positions are tested
// side by side, by every block for itself, and rows are read again only where a token is drawn: one
// position of a request, in one pass shared by the blocks (two where the distributions are equal).
//
// Randomness: position i of a request uses offset + i; purposes accept, recover and bonus.
// Determinism: integers throughout; no dependence on order, grid or batch.
#include <cstdint>

#include "common/philox.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/read_value.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/row_filter/weigh_rows.h"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/drafted_rows.h"

namespace fairdraw::cuda {
namespace {

/// Few, and many blocks: what one waits for another hides.
constexpr int kThreads = 128;

/// Weights of a row that was weighed.
struct RowWeight {
  ProbabilityWeight weight;
  __device__ float operator()(std::int64_t, float x) const { return float_weight(weight(x)); }
};

__device__ Distribution<RowWeight> distribution_of(const RowsView& rows, std::int64_t number,
                                                   const RowRecord& record) {
  ProbabilityWeight weight(1.0F);
  weight.set_max(record.max);
  return {RowValues::of(rows, number), {weight}, record.total};
}

/// One request of a call.
struct Chain {
  const ChainTask& task;
  std::int64_t b;  ///< its number
  std::int64_t n;  ///< drafted tokens

  __device__ std::int32_t drafted(std::int64_t i) const {
    return task.request.draft_tokens.data[b * n + i];
  }
  __device__ const RowRecord& target_record(std::int64_t i) const {
    return task.records[b * (n + 1) + i];
  }
  __device__ const RowRecord& draft_record(std::int64_t i) const {
    return task.records[task.request.target_probs.rows + b * n + i];
  }
  __device__ Distribution<RowWeight> target(std::int64_t i) const {
    return distribution_of(task.request.target_probs, b * (n + 1) + i, target_record(i));
  }
  __device__ Distribution<RowWeight> draft(std::int64_t i) const {
    return distribution_of(task.request.draft_probs, b * n + i, draft_record(i));
  }
  __device__ std::uint64_t word(std::int64_t position, Purpose purpose) const {
    const PerRequest<std::uint64_t>& seed = task.request.seed;
    const std::uint64_t offset = task.request.offset.at(b) + static_cast<std::uint64_t>(position);
    const auto index = static_cast<std::uint32_t>(seed.is_array() ? 0 : b);
    return random_word(seed.at(b), offset, purpose, index);
  }

  __device__ bool accepts(std::int64_t i) const {
    return accepts_draft(target(i), draft(i), drafted(i), word(i, Purpose::accept));
  }
};

struct ChainScratch {
  BlockScratch<std::uint64_t> reduction;
  ChainSums sums;
};

/// What the tests of all positions say.
struct Verdict {
  RowStatus status;
  std::int64_t accepted;  ///< positions that pass
  std::int64_t emitted;   ///< the first position that does not; n where all pass
};

/// A bad row's place in the order of rows, with its status: the smallest is the request's.
constexpr std::uint64_t kNoFault = ~std::uint64_t{0};
__device__ std::uint64_t fault_at(std::int64_t order, RowStatus status) {
  constexpr int kStatusBits = 8;
  return (static_cast<std::uint64_t>(order) << kStatusBits) | static_cast<std::uint64_t>(status);
}
__device__ RowStatus status_of_fault(std::uint64_t fault) {
  return static_cast<RowStatus>(fault & 0xffU);
}

/// For the whole block; all threads get the verdict.
__device__ Verdict test_positions(const Chain& chain, ChainScratch& scratch) {
  const std::int64_t vocab = chain.task.request.target_probs.vocab;
  std::uint64_t fault = kNoFault;
  std::uint64_t accepted = 0;
  auto rejected = static_cast<std::uint64_t>(chain.n);
  for (std::int64_t i = threadIdx.x; i <= chain.n; i += blockDim.x) {
    const RowStatus target = chain.target_record(i).status;
    if (target != RowStatus::ok) fault = Minimum{}(fault, fault_at(2 * i + 2, target));
    if (i == chain.n) continue;
    const RowStatus draft = chain.draft_record(i).status;
    if (draft != RowStatus::ok) fault = Minimum{}(fault, fault_at(2 * i + 1, draft));
    const std::int32_t token = chain.drafted(i);
    if (token < 0 || token >= vocab) fault = fault_at(0, RowStatus::index_out_of_range);
    if (fault != kNoFault) continue;  // then no test counts
    const bool accepts = chain.accepts(i);
    accepted += accepts ? 1 : 0;
    if (!accepts) rejected = Minimum{}(rejected, static_cast<std::uint64_t>(i));
  }
  fault = reduce_block(fault, scratch.reduction, Minimum{});
  accepted = reduce_block(accepted, scratch.reduction, Add{});
  rejected = reduce_block(rejected, scratch.reduction, Minimum{});
  if (fault != kNoFault) return {status_of_fault(fault), 0, 0};
  return {RowStatus::ok, static_cast<std::int64_t>(accepted), static_cast<std::int64_t>(rejected)};
}

/// The token after the emitted ones: of the residual, or the bonus. As ChainDraw gives it.
__device__ std::int32_t last_token(const Chain& chain, std::int64_t position, ChainDraw& draw) {
  const Distribution<RowWeight> target = chain.target(position);
  if (position == chain.n) {
    return draw_from_target(draw, chain.word(position, Purpose::bonus), target);
  }
  return draw_residual(draw, chain.word(position, Purpose::recover), target, chain.draft(position));
}

__device__ void verify_chain(const Chain& chain, const RowCluster& cluster, ChainScratch& scratch) {
  cluster.announce();
  const ChainSpeculativeResult& result = chain.task.result;
  const Verdict verdict = test_positions(chain, scratch);
  const bool ok = verdict.status == RowStatus::ok;
  std::int32_t* tokens = result.tokens.data + chain.b * (chain.n + 1);
  cluster.await_all();
  if (ok) {
    ChainDraw draw(cluster, scratch.sums, chain.task.request.target_probs.vocab);
    const std::int32_t last = last_token(chain, verdict.emitted, draw);
    if (threadIdx.x == 0 && last >= 0) tokens[verdict.emitted] = last;
  }
  if (cluster.rank != 0) return;
  for (std::int64_t i = threadIdx.x; i <= chain.n; i += blockDim.x) {
    if (ok && i == verdict.emitted) continue;
    tokens[i] = ok && i < verdict.emitted ? chain.drafted(i) : -1;
  }
  if (threadIdx.x != 0) return;
  if (result.accepted.given()) {
    result.accepted.data[chain.b] = static_cast<std::int32_t>(verdict.accepted);
  }
  if (result.emitted.given()) {
    result.emitted.data[chain.b] = static_cast<std::int32_t>(verdict.emitted);
  }
  if (result.statuses.given()) result.statuses.data[chain.b] = verdict.status;
}

__global__ void __launch_bounds__(kThreads, 6)
    verify_chains_kernel(const __grid_constant__ ChainTask task, int blocks) {
  __shared__ ChainScratch scratch;
  const auto of_request = static_cast<unsigned>(blocks);
  verify_chain({task, blockIdx.x / of_request, task.request.num_draft_tokens},
               {blocks, static_cast<int>(blockIdx.x % of_request)}, scratch);
}

}  // namespace

cudaError_t verify_chains(const ChainTask& task, Path path, cudaStream_t stream) {
  WeighTask weigh;
  weigh.rows[0] = task.request.target_probs;
  weigh.rows[1] = task.request.draft_probs;
  weigh.rows[1].rows = task.draft_rows();
  weigh.records = task.records;
  const cudaError_t error = weigh_rows(weigh, path, stream);
  if (error != cudaSuccess) return error;
  const int blocks = path == Path::block ? 1
                                         : blocks_of_draw(task.request.target_probs.vocab,
                                                          task.request.batch, kThreads / kWarp);
  return launch_clusters(verify_chains_kernel, task.request.batch, blocks, kThreads, stream, task,
                         blocks);
}

}  // namespace fairdraw::cuda
