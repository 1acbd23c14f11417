// Verification of drafted tokens for chain_speculative_sampling (fairdraw/sampling.h), with integer
// arithmetic.
//
// The contract is given at the declaration in fairdraw/sampling.h. Semantics: the rules are those
// of Leviathan et al. 2023 and Chen et al. 2023, in the arithmetic of chain_draws.cuh. The rows of
// all positions are validated, even those after a rejected draft. A draft token that is out of
// range makes the request fail. Otherwise, the first bad row in the order of positions makes the
// request fail; at the same position, the draft's row comes before the target's.
//
// Algorithm and cost. A call has three launches. First, the row kernel reads all rows of all
// requests once, without filters, the target's rows before the draft's. For each row, the row
// kernel stores a fault, the maximum, and bounds of the total. Then 1 to 8 blocks for each request
// test the positions. A test needs two weights and the bounds of two totals, so every block by
// itself tests all positions in parallel. Rows are read again only at positions whose test the
// bounds do not decide, and at the one position of each request where a token is drawn. There, the
// blocks share one pass for totals and residuals together; a second pass is needed if the bounds
// leave many tokens undecided or the distributions are equal.
//
// Randomness: position i of a request uses offset + i, with the purposes accept, recover and bonus.
// Determinism: all arithmetic is done with integers, and results do not depend on order, grid or
// batch.
#include <cstdint>

#include "common/philox.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/early_start.h"
#include "cuda/device/read_value.cuh"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/drafted_rows.h"
#include "cuda/speculation/filtered_distribution.cuh"

namespace fairdraw::cuda {
namespace {

/// A block has few threads, and there are many blocks, so that one block works while another waits
/// for memory.
constexpr int kThreads = 128;

/// Single request of a call of chain_speculative_sampling.
struct Chain {
  const ChainTask& task;
  std::int64_t b;  ///< number of the request
  std::int64_t n;  ///< number of drafted tokens of the request

  __device__ std::int32_t drafted(std::int64_t i) const {
    return task.request.draft_tokens.data[b * n + i];
  }
  __device__ const RowRecord& target_record(std::int64_t i) const {
    return task.records[b * (n + 1) + i];
  }
  __device__ const RowRecord& draft_record(std::int64_t i) const {
    return task.draft_records()[b * n + i];
  }
  __device__ Distribution<FilteredWeight> target(std::int64_t i) const {
    return distribution_of(task.target(), b * (n + 1) + i);
  }
  __device__ Distribution<FilteredWeight> draft(std::int64_t i) const {
    return distribution_of(task.draft(), b * n + i);
  }
  __device__ std::uint64_t word(std::int64_t position, Purpose purpose) const {
    const PerRequest<std::uint64_t>& seed = task.request.seed;
    const std::uint64_t offset = task.request.offset.at(b) + static_cast<std::uint64_t>(position);
    const auto index = static_cast<std::uint32_t>(seed.is_array() ? 0 : b);
    return random_word(seed.at(b), offset, purpose, index);
  }

  __device__ DraftDecision test(std::int64_t i, const Distribution<FilteredWeight>& of_target,
                                const Distribution<FilteredWeight>& of_draft) const {
    return test_draft(of_target, of_draft, drafted(i), word(i, Purpose::accept));
  }
};

static_assert(kThreads / kWarp <= ResidualMemory::kMaxWarpsOfDraw);

struct ChainScratch {
  BlockScratch<std::uint64_t> reduction;
  ChainSums sums;
  ResidualMemory residual;
};

/// Results of the tests of all positions of a request. A field that gives the first position of
/// some kind is n if no position is of this kind.
struct Tests {
  RowStatus status;
  std::int64_t accepted;  ///< number of positions whose drafted token passes the test
  std::int64_t emitted;   ///< first position whose drafted token fails the test
  std::int64_t open;      ///< first position whose test is undecided
};

/// Code for a request without a fault. All other codes consist of the place of a bad row in the
/// order of rows, and the row's status. The smallest of these codes becomes the code of the
/// request.
constexpr std::uint64_t kNoFault = ~std::uint64_t{0};
__device__ std::uint64_t fault_at(std::int64_t order, RowStatus status) {
  constexpr int kStatusBits = 8;
  return (static_cast<std::uint64_t>(order) << kStatusBits) | static_cast<std::uint64_t>(status);
}
__device__ RowStatus status_of_fault(std::uint64_t fault) {
  return static_cast<RowStatus>(fault & 0xffU);
}

/// Tests all positions. The whole block must call this function, and all threads get the same
/// results.
__device__ Tests test_positions(const Chain& chain, ChainScratch& scratch) {
  const std::int64_t vocab = chain.task.request.target_probs.vocab;
  const auto n = static_cast<std::uint64_t>(chain.n);
  std::uint64_t fault = kNoFault;
  std::uint64_t accepted = 0;
  std::uint64_t rejected = n;
  std::uint64_t open = n;
  for (std::int64_t i = threadIdx.x; i <= chain.n; i += blockDim.x) {
    const RowStatus target = chain.target_record(i).status;
    if (target != RowStatus::ok) fault = Minimum{}(fault, fault_at(2 * i + 2, target));
    if (i == chain.n) continue;
    const RowStatus draft = chain.draft_record(i).status;
    if (draft != RowStatus::ok) fault = Minimum{}(fault, fault_at(2 * i + 1, draft));
    const std::int32_t token = chain.drafted(i);
    if (token < 0 || token >= vocab) fault = fault_at(0, RowStatus::index_out_of_range);
    if (fault != kNoFault) continue;  // if there is a fault, the results of the tests do not matter
    const DraftDecision decision = chain.test(i, chain.target(i), chain.draft(i));
    const auto position = static_cast<std::uint64_t>(i);
    accepted += decision == DraftDecision::accepts ? 1 : 0;
    if (decision == DraftDecision::rejects) rejected = Minimum{}(rejected, position);
    if (decision == DraftDecision::open) open = Minimum{}(open, position);
  }
  fault = reduce_block(fault, scratch.reduction, Minimum{});
  accepted = reduce_block(accepted, scratch.reduction, Add{});
  rejected = reduce_block(rejected, scratch.reduction, Minimum{});
  open = reduce_block(open, scratch.reduction, Minimum{});
  if (fault != kNoFault) return {status_of_fault(fault), 0, 0, chain.n};
  return {RowStatus::ok, static_cast<std::int64_t>(accepted), static_cast<std::int64_t>(rejected),
          static_cast<std::int64_t>(open)};
}

/// Decides the undecided tests, with the exact totals. All threads of all blocks must call this
/// function.
__device__ __noinline__ void close_tests(const Chain& chain, ChainDraw& draw, Tests& tests) {
  for (std::int64_t i = tests.open; i < chain.n; ++i) {
    Distribution<FilteredWeight> target = chain.target(i);
    Distribution<FilteredWeight> draft = chain.draft(i);
    if (chain.test(i, target, draft) != DraftDecision::open) continue;
    find_totals(draw, target, draft);
    if (chain.test(i, target, draft) == DraftDecision::accepts) {
      ++tests.accepted;
    } else {
      tests.emitted = min(tests.emitted, i);
    }
  }
}

/// Returns the token that follows the accepted tokens, which is drawn from the residual or as a
/// bonus; the form of the result is that of ChainDraw.
__device__ std::int32_t last_token(const Chain& chain, std::int64_t position, ChainDraw& draw,
                                   ChainScratch& scratch, const RowCluster& cluster) {
  ResidualMemory& memory = scratch.residual;
  memory.clear();
  memory.target.set(chain.target(position));
  if (position == chain.n) {
    return draw_from_target(draw, chain.word(position, Purpose::bonus), memory.target.get());
  }
  memory.draft.set(chain.draft(position));
  return draw_residual(draw, chain.word(position, Purpose::recover), memory, cluster);
}

__device__ void accept_chain(const Chain& chain, const RowCluster& cluster, ChainScratch& scratch) {
  cluster.announce();
  const ChainSpeculativeResult& result = chain.task.result;
  Tests tests = test_positions(chain, scratch);
  const bool ok = tests.status == RowStatus::ok;
  std::int32_t* tokens = result.tokens.data + chain.b * (chain.n + 1);
  cluster.await_all();
  if (ok) {
    ChainDraw draw(cluster, scratch.sums, chain.task.request.target_probs.vocab);
    if (tests.open < chain.n) close_tests(chain, draw, tests);
    const std::int32_t last = last_token(chain, tests.emitted, draw, scratch, cluster);
    if (threadIdx.x == 0 && last >= 0) tokens[tests.emitted] = last;
  }
  if (cluster.rank != 0) return;
  for (std::int64_t i = threadIdx.x; i <= chain.n; i += blockDim.x) {
    if (ok && i == tests.emitted) continue;
    tokens[i] = ok && i < tests.emitted ? chain.drafted(i) : -1;
  }
  if (threadIdx.x != 0) return;
  if (result.accepted.given()) {
    result.accepted.data[chain.b] = static_cast<std::int32_t>(tests.accepted);
  }
  if (result.emitted.given()) {
    result.emitted.data[chain.b] = static_cast<std::int32_t>(tests.emitted);
  }
  if (result.statuses.given()) result.statuses.data[chain.b] = tests.status;
}

__global__ void __launch_bounds__(kThreads, blocks_with_registers(kThreads))
    accept_chains_kernel(const __grid_constant__ ChainTask task, int blocks_log2) {
  __shared__ ChainScratch scratch;
  await_kernel_before();
  accept_chain({task, blockIdx.x >> blocks_log2, task.request.num_draft_tokens},
               RowCluster::of_grid(blocks_log2), scratch);
}

}  // namespace

cudaError_t accept_chains(const ChainTask& task, Path path, cudaStream_t stream) {
  const ChainSpeculativeRequest& request = task.request;
  cudaError_t error = weigh_probabilities(request.target_probs, {}, task.records, path, stream);
  if (error == cudaSuccess && request.num_draft_tokens > 0) {
    error = weigh_probabilities(request.draft_probs, {}, task.draft_records(), path, stream);
  }
  if (error != cudaSuccess) return error;
  const int blocks =
      path == Path::block ? 1 : blocks_of_draw(request.target_probs.vocab, request.batch, kThreads);
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/true};
  return launch_spread<accept_chains_kernel>(request.batch, {blocks, kThreads}, needs, stream,
                                             task);
}

}  // namespace fairdraw::cuda
