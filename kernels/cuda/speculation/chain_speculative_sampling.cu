// chain_speculative_sampling (fairdraw/sampling.h): verification of drafted tokens, in integers.
//
// Contract: see the declaration in fairdraw/sampling.h. Semantics: Leviathan et al. 2023, Chen et
// al. 2023, in the arithmetic of chain_draws.cuh. Rows of all positions are validated, including
// those after a rejection. A draft token that is out of range fails the request; otherwise the
// first bad row in the order of positions does, the draft's row before the target's.
//
// Algorithm and cost. Three launches. The row kernel, without filters, reads all rows of all
// requests once, first the target's and then the draft's, and stores each row's fault, its maximum
// and bounds of its total. Then 1 to 8 blocks per request test the positions. A test needs two
// weights and bounds of two totals, so all positions are tested in parallel, by every block for
// itself. Rows are read again at one position per request to draw a token, in one pass shared by
// the blocks, for totals and residuals together (a second pass if the bounds leave many tokens
// undecided, or the distributions are equal), and at positions whose test the bounds do not decide.
//
// Randomness: position i of a request uses offset + i; purposes accept, recover and bonus.
// Determinism: integers throughout; results do not depend on order, grid or batch.
#include <cstdint>

#include "common/philox.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/early_start.h"
#include "cuda/device/read_value.cuh"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/drafted_rows.h"
#include "cuda/speculation/filtered_distribution.cuh"
#include "cuda/tiles/tile_launch.cuh"

namespace fairdraw::cuda {
namespace {

/// A block has few threads and there are many blocks, so that one block works while another waits.
constexpr int kThreads = 128;

/// One request of a call of chain_speculative_sampling.
struct Chain {
  const ChainTask& task;
  std::int64_t b;  ///< number of the request
  std::int64_t n;  ///< number of drafted tokens

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

  __device__ Verdict test(std::int64_t i, const Distribution<FilteredWeight>& of_target,
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

/// Results of the tests of all positions. The first position of a kind is n if no position is of
/// that kind.
struct Tests {
  RowStatus status;
  std::int64_t accepted;  ///< number of positions whose drafted token passes the test
  std::int64_t emitted;   ///< the first position whose drafted token does not pass
  std::int64_t open;      ///< the first position whose test is open
};

/// Code for a request without a fault. Other codes consist of a bad row's place in the order of
/// rows, and its status; the smallest code becomes the request's.
constexpr std::uint64_t kNoFault = ~std::uint64_t{0};
__device__ std::uint64_t fault_at(std::int64_t order, RowStatus status) {
  constexpr int kStatusBits = 8;
  return (static_cast<std::uint64_t>(order) << kStatusBits) | static_cast<std::uint64_t>(status);
}
__device__ RowStatus status_of_fault(std::uint64_t fault) {
  return static_cast<RowStatus>(fault & 0xffU);
}

/// Tests all positions. Called by the whole block; all threads get the same results.
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
    if (fault != kNoFault) continue;  // test results do not count then
    const Verdict verdict = chain.test(i, chain.target(i), chain.draft(i));
    const auto position = static_cast<std::uint64_t>(i);
    accepted += verdict == Verdict::accepts ? 1 : 0;
    if (verdict == Verdict::rejects) rejected = Minimum{}(rejected, position);
    if (verdict == Verdict::open) open = Minimum{}(open, position);
  }
  fault = reduce_block(fault, scratch.reduction, Minimum{});
  accepted = reduce_block(accepted, scratch.reduction, Add{});
  rejected = reduce_block(rejected, scratch.reduction, Minimum{});
  open = reduce_block(open, scratch.reduction, Minimum{});
  if (fault != kNoFault) return {status_of_fault(fault), 0, 0, chain.n};
  return {RowStatus::ok, static_cast<std::int64_t>(accepted), static_cast<std::int64_t>(rejected),
          static_cast<std::int64_t>(open)};
}

/// Decides the tests that are open, by the exact totals. For all threads of all blocks.
__device__ __noinline__ void close_tests(const Chain& chain, ChainDraw& draw, Tests& tests) {
  for (std::int64_t i = tests.open; i < chain.n; ++i) {
    Distribution<FilteredWeight> target = chain.target(i);
    Distribution<FilteredWeight> draft = chain.draft(i);
    if (chain.test(i, target, draft) != Verdict::open) continue;
    find_totals(draw, target, draft);
    if (chain.test(i, target, draft) == Verdict::accepts) {
      ++tests.accepted;
    } else {
      tests.emitted = min(tests.emitted, i);
    }
  }
}

/// Returns the token that follows the accepted ones, drawn from the residual or as bonus, in the
/// form of ChainDraw.
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

__device__ void verify_chain(const Chain& chain, const RowCluster& cluster, ChainScratch& scratch) {
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
    verify_chains_kernel(const __grid_constant__ ChainTask task, int blocks_log2) {
  __shared__ ChainScratch scratch;
  await_kernel_before();
  verify_chain({task, blockIdx.x >> blocks_log2, task.request.num_draft_tokens},
               RowCluster::of_grid(blocks_log2), scratch);
}

}  // namespace

cudaError_t verify_chains(const ChainTask& task, Path path, cudaStream_t stream) {
  const ChainSpeculativeRequest& request = task.request;
  cudaError_t error = weigh_probabilities(request.target_probs, {}, task.records, path, stream);
  if (error == cudaSuccess && request.num_draft_tokens > 0) {
    error = weigh_probabilities(request.draft_probs, {}, task.draft_records(), path, stream);
  }
  if (error != cudaSuccess) return error;
  const int blocks =
      path == Path::block ? 1 : blocks_of_draw(request.target_probs.vocab, request.batch, kThreads);
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/true};
  return launch_spread<verify_chains_kernel>(request.batch, {blocks, kThreads}, needs, stream,
                                             task);
}

}  // namespace fairdraw::cuda
