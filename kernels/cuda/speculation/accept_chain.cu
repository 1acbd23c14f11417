// Walk over a chain of drafted tokens, for accept_chain (fairdraw/speculative.h).
//
// Contract. The kernel writes, for each request, the tokens, the number of accepted drafts and a
// status. The input consists of filtered rows of the target, with a token drawn from each row, and
// of rows of the draft if its distribution is known. The semantics are those of
// kernels/serving/drafts/accept_tree.cpp, and the arithmetic is that of chain_draws.cuh. Rows and
// drafts after the first rejected draft do not matter, even if a row is bad.
//
// Algorithm and cost. Each request has 1 to 8 blocks, or one block if no distribution of drafts is
// known. Every block by itself tests all positions in parallel. If the distribution of the draft is
// unknown, the test compares the drawn token with the drafted token; if it is known, the test takes
// two weights and the bounds of two totals. The first position at which the chain ends decides the
// result. Rows are read again only at this position, in passes that the blocks share. A bonus token
// needs one row. A residual needs both rows, in one pass for totals and residuals together, a
// second pass if the bounds leave many tokens undecided, and a pass over the target's row if the
// distributions are equal. If the bounds leave a test undecided, exact totals are added up for this
// test, and the positions after it are tested if its draft is accepted. Totals are 2^38.5 or more,
// except for rows of subnormal probabilities, so the probability of this case is at most V 2^-37.5.
//
// Randomness: position i uses offset + i, with the purposes draw (in the row kernel), accept,
// recover and bonus. Determinism: all arithmetic is done with integers, and results do not depend
// on order, grid or batch.
#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/device/early_start.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/chain_end.cuh"
#include "cuda/speculation/drafted_rows.h"
#include "cuda/speculation/filtered_distribution.cuh"

namespace fairdraw::cuda {
namespace {

/// A block has few threads, and there are many blocks, so that one block works while another waits
/// for memory.
constexpr int kThreads = 256;

static_assert(kThreads / kWarp <= ResidualMemory::kMaxWarpsOfDraw);

struct ChainMemory {
  ChainSums sums;
  ResidualMemory residual;
  BlockScratch<std::uint64_t> reduction;
};

class ChainWalk {
 public:
  __device__ ChainWalk(const DraftTask& task, const FilteredRows& target, const FilteredRows& draft,
                       std::int64_t b, const RowCluster& cluster, ChainMemory& shared)
      : task_(task),
        target_(target),
        draft_(draft),
        b_(b),
        state_(task.requests[b]),
        cluster_(cluster),
        shared_(shared) {}

  __device__ void run(const AcceptChainResult& result) {
    cluster_.announce();
    Position end{0, Ending::fails, state_.status};
    if (state_.status == RowStatus::ok) end = first_end(0);
    const std::int64_t width = task_.drafts.max_draft + 1;
    std::int32_t* tokens = result.tokens.data + b_ * width;
    cluster_.await_all();
    const std::int32_t last = last_token(end);
    const bool ok = end.ending != Ending::fails;
    const std::int64_t stands = end.number;
    if (ok && threadIdx.x == 0 && last >= 0) tokens[stands] = last;
    if (cluster_.rank != 0) return;
    for (std::int64_t i = threadIdx.x; i < width; i += kThreads) {
      if (ok && i == stands) continue;
      tokens[i] = ok && i < stands ? drafted(i) : -1;
    }
    if (threadIdx.x != 0) return;
    if (result.accepted.given()) {
      result.accepted.data[b_] = ok ? static_cast<std::int32_t>(stands) : 0;
    }
    if (result.statuses.given()) result.statuses.data[b_] = end.status;
  }

 private:
  __device__ std::int32_t drafted(std::int64_t i) const {
    return task_.drafts.tokens.data[state_.request.place + i];
  }
  __device__ std::int64_t row_of(std::int64_t i) const { return state_.request.row + i; }
  __device__ bool by_distribution() const { return state_.by_distribution != 0; }
  __device__ std::uint64_t word(std::int64_t position, Purpose purpose) const {
    return task_.word(b_, position, purpose);
  }

  __device__ Distribution<FilteredWeight> target(std::int64_t i) const {
    return distribution_of(target_, row_of(i));
  }
  __device__ Distribution<FilteredWeight> draft(std::int64_t i) const {
    return distribution_of(draft_, state_.request.place + i);
  }

  __device__ Position look_at(std::int64_t i) const {
    const RowStatus status = target_.records[row_of(i)].status;
    if (status != RowStatus::ok) return {i, Ending::fails, status};
    if (i == state_.request.drafts) return {i, Ending::stops, RowStatus::ok};
    if (by_distribution()) return test(i);
    const bool stands = task_.draws.tokens[row_of(i)] == drafted(i);
    return {i, stands ? Ending::goes_on : Ending::stops, RowStatus::ok};
  }

  __device__ Position test(std::int64_t i) const {
    const RowStatus status = draft_.records[state_.request.place + i].status;
    if (status != RowStatus::ok) return {i, Ending::fails, status};
    const Distribution<FilteredWeight> of_draft = draft(i);
    const std::int32_t token = drafted(i);
    if (of_draft.weight(token) == 0) return {i, Ending::fails, RowStatus::impossible_draft};
    switch (test_draft(target(i), of_draft, token, word(i, Purpose::accept))) {
      case DraftDecision::accepts:
        return {i, Ending::goes_on, RowStatus::ok};
      case DraftDecision::rejects:
        return {i, Ending::stops, RowStatus::ok};
      case DraftDecision::open:
        break;
    }
    return {i, Ending::open, RowStatus::ok};
  }

  /// Returns the first position from `begin` on at which the chain ends, to all threads.
  __device__ Position first_end(std::int64_t begin) {
    return cuda::first_end(
        begin, state_.request.drafts, [this](std::int64_t i) { return look_at(i); },
        shared_.reduction);
  }

  /// Returns the token that ends the chain, to the first warp of one block; all other warps get a
  /// negative number. If the test at `end` is undecided, the function replaces `end` for all
  /// threads by the position at which the chain ends.
  __device__ std::int32_t last_token(Position& end) {
    ChainDraw draw(cluster_, shared_.sums, target_.rows.vocab);
    while (end.ending != Ending::fails) {
      const std::int64_t i = end.number;
      if (!by_distribution()) return cluster_.rank == 0 ? task_.draws.tokens[row_of(i)] : -1;
      ResidualMemory& memory = shared_.residual;
      memory.clear();
      memory.target.set(target(i));
      if (i == state_.request.drafts) {
        return draw_from_target(draw, word(i, Purpose::bonus), memory.target.get());
      }
      const std::uint64_t recover = word(i, Purpose::recover);
      if (end.ending == Ending::stops) {
        memory.draft.set(draft(i));
        return draw_residual(draw, recover, memory, cluster_);
      }
      std::int32_t last = -1;
      if (!passes_by_totals(draw, i, recover, last)) return last;
      end = first_end(i + 1);
    }
    return -1;
  }

  /// Decides a test that the bounds left undecided, with the exact totals. If the draft is
  /// rejected, the function returns false and stores the replacement of the draft in `last`.
  __device__ __noinline__ bool passes_by_totals(ChainDraw& draw, std::int64_t i,
                                                std::uint64_t recover, std::int32_t& last) const {
    Distribution<FilteredWeight> of_target = target(i);
    Distribution<FilteredWeight> of_draft = draft(i);
    find_totals(draw, of_target, of_draft);
    const DraftDecision decision =
        test_draft(of_target, of_draft, drafted(i), word(i, Purpose::accept));
    if (decision == DraftDecision::accepts) return true;
    last = draw_residual(draw, recover, of_target, of_draft);
    return false;
  }

  const DraftTask& task_;
  const FilteredRows& target_;
  const FilteredRows& draft_;
  std::int64_t b_;
  DraftedState state_;
  RowCluster cluster_;
  ChainMemory& shared_;
};

__global__ void __launch_bounds__(kThreads, blocks_with_registers(kThreads))
    walk_chains_kernel(const __grid_constant__ DraftTask task,
                       const __grid_constant__ FilteredRows target,
                       const __grid_constant__ FilteredRows draft,
                       const __grid_constant__ AcceptChainResult result,
                       const __grid_constant__ PerRequest<AcceptRule> rules, int blocks_log2) {
  __shared__ ChainMemory shared;
  await_kernel_before();
  const std::int64_t b = blockIdx.x >> blocks_log2;
  if (rules.at(b) == AcceptRule::block) return;  // walk_blocks verifies these requests
  ChainWalk(task, target, draft, b, RowCluster::of_grid(blocks_log2), shared).run(result);
}

}  // namespace

cudaError_t walk_chains(const DraftTask& task, const FilteredRows& target,
                        const FilteredRows& draft, const AcceptChainResult& result,
                        const PerRequest<AcceptRule>& rules, Path path, cudaStream_t stream) {
  const bool draws = task.draft_law != DraftLaw::none && path != Path::block;
  const int blocks = draws ? blocks_of_draw(target.rows.vocab, task.target.batch, kThreads) : 1;
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/true};
  return launch_spread<walk_chains_kernel>(task.target.batch, {blocks, kThreads}, needs, stream,
                                           task, target, draft, result, rules);
}

}  // namespace fairdraw::cuda
