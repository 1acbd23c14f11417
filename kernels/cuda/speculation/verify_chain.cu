// The walk over a chain of drafted tokens (fairdraw/speculative.h, verify_chain).
//
// Contract. Tokens, the number of accepted drafts, and a status of each request, from rows of the
// target that are filtered, with a token drawn at each, and from rows of the draft where its
// distribution is known. Semantics and arithmetic: those of kernels/cpu/verify_chain.cpp and
// chain_draws.cuh. Nothing after the first rejected draft counts, not even a bad row.
//
// Algorithm and cost. 1 to 8 blocks a request, one where no distribution is known. All positions
// are tested side by side, by every block for itself: with no distribution of the draft the drawn
// token is compared with the drafted one; with a distribution the test takes two weights and two
// sums. The first position that does not go on decides. Only a residual or a bonus reads rows
// again: one position of a request, in one pass shared by the blocks (two where the distributions
// are equal).
//
// Randomness: position i uses offset + i; purposes draw (by the row kernel), accept, recover,
// bonus. Determinism: integers throughout; no dependence on order, grid or batch.
#include <cstdint>

#include "common/philox.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/speculation/chain_draws.cuh"
#include "cuda/speculation/drafted_rows.h"
#include "cuda/speculation/filtered_distribution.cuh"

namespace fairdraw::cuda {
namespace {

/// Few, and many blocks: what one waits for another hides.
constexpr int kThreads = 256;

struct Shared {
  ChainSums sums;
  BlockScratch<std::uint64_t> reduction;
};

/// How a position ends, in the order in which they are looked for.
enum class Ending : std::uint32_t { goes_on, fails, stops };

struct Position {
  Ending ending;
  RowStatus status;  ///< of one that fails
};

class ChainWalk {
 public:
  __device__ ChainWalk(const DraftTask& task, const FilteredRows& target, const FilteredRows& draft,
                       std::int64_t b, const RowCluster& cluster, Shared& shared)
      : task_(task),
        target_(target),
        draft_(draft),
        b_(b),
        state_(task.requests[b]),
        cluster_(cluster),
        shared_(shared) {}

  __device__ void run(const VerifyChainResult& result) {
    cluster_.announce();
    RowStatus status = state_.status;
    std::int64_t stands = 0;
    if (status == RowStatus::ok) stands = first_end(status);
    const bool ok = status == RowStatus::ok;
    const std::int64_t width = task_.drafts.max_draft + 1;
    std::int32_t* tokens = result.tokens.data + b_ * width;
    cluster_.await_all();
    if (ok) {
      const std::int32_t last = token_at(stands);
      if (threadIdx.x == 0 && last >= 0) tokens[stands] = last;
    }
    if (cluster_.rank != 0) return;
    for (std::int64_t i = threadIdx.x; i < width; i += kThreads) {
      if (ok && i == stands) continue;
      tokens[i] = ok && i < stands ? drafted(i) : -1;
    }
    if (threadIdx.x != 0) return;
    if (result.accepted.given()) {
      result.accepted.data[b_] = ok ? static_cast<std::int32_t>(stands) : 0;
    }
    if (result.statuses.given()) result.statuses.data[b_] = status;
  }

 private:
  __device__ std::int32_t drafted(std::int64_t i) const {
    return task_.drafts.tokens.data[state_.request.place + i];
  }
  __device__ std::int64_t row_of(std::int64_t i) const { return state_.request.row + i; }
  __device__ bool by_distribution() const { return state_.by_distribution != 0; }
  __device__ std::uint64_t word(std::int64_t position, Purpose purpose) const {
    const PerRequest<std::uint64_t>& seed = task_.target.seed;
    const std::uint64_t offset = task_.target.offset.at(b_) + static_cast<std::uint64_t>(position);
    return random_word(seed.at(b_), offset, purpose,
                       static_cast<std::uint32_t>(seed.is_array() ? 0 : b_));
  }

  __device__ Position look_at(std::int64_t i) const {
    const RowStatus target = target_.records[row_of(i)].status;
    if (target != RowStatus::ok) return {Ending::fails, target};
    if (i == state_.request.drafts) return {Ending::stops, RowStatus::ok};
    bool stands = false;
    if (by_distribution()) {
      const std::int64_t place = state_.request.place + i;
      const RowStatus status = draft_.records[place].status;
      if (status != RowStatus::ok) return {Ending::fails, status};
      const Distribution<FilteredWeight> draft = distribution_of(draft_, place);
      const std::int32_t token = drafted(i);
      if (draft.weight(token) == 0) return {Ending::fails, RowStatus::impossible_draft};
      stands = accepts_draft(distribution_of(target_, row_of(i)), draft, token,
                             word(i, Purpose::accept));
    } else {
      stands = task_.draws.tokens[row_of(i)] == drafted(i);
    }
    return {stands ? Ending::goes_on : Ending::stops, RowStatus::ok};
  }

  /// The first position that does not go on, for all threads; the status where it fails.
  __device__ std::int64_t first_end(RowStatus& status) {
    constexpr int kStatusBits = 8;
    std::uint64_t first = ~std::uint64_t{0};
    for (std::int64_t i = threadIdx.x; i <= state_.request.drafts; i += kThreads) {
      const Position position = look_at(i);
      if (position.ending == Ending::goes_on) continue;
      first = (static_cast<std::uint64_t>(i) << kStatusBits) |
              static_cast<std::uint64_t>(position.status);
      break;
    }
    first = reduce_block(first, shared_.reduction, Minimum{});
    status = static_cast<RowStatus>(first & ((1U << kStatusBits) - 1U));
    return static_cast<std::int64_t>(first >> kStatusBits);
  }

  /// The token that ends the chain, in one block's first warp; negative elsewhere.
  __device__ std::int32_t token_at(std::int64_t i) {
    if (!by_distribution()) return cluster_.rank == 0 ? task_.draws.tokens[row_of(i)] : -1;
    ChainDraw draw(cluster_, shared_.sums, target_.rows.vocab);
    const Distribution<FilteredWeight> target = distribution_of(target_, row_of(i));
    if (i == state_.request.drafts) {
      return draw_from_target(draw, word(i, Purpose::bonus), target);
    }
    return draw_residual(draw, word(i, Purpose::recover), target,
                         distribution_of(draft_, state_.request.place + i));
  }

  const DraftTask& task_;
  const FilteredRows& target_;
  const FilteredRows& draft_;
  std::int64_t b_;
  DraftedState state_;
  RowCluster cluster_;
  Shared& shared_;
};

__global__ void __launch_bounds__(kThreads, 3)
    walk_chains_kernel(const __grid_constant__ DraftTask task,
                       const __grid_constant__ FilteredRows target,
                       const __grid_constant__ FilteredRows draft,
                       const __grid_constant__ VerifyChainResult result, int blocks) {
  __shared__ Shared shared;
  const auto of_request = static_cast<unsigned>(blocks);
  const RowCluster cluster{blocks, static_cast<int>(blockIdx.x % of_request)};
  ChainWalk(task, target, draft, blockIdx.x / of_request, cluster, shared).run(result);
}

}  // namespace

cudaError_t walk_chains(const DraftTask& task, const FilteredRows& target,
                        const FilteredRows& draft, const VerifyChainResult& result, Path path,
                        cudaStream_t stream) {
  const bool draws = task.draft_law != DraftLaw::none && path != Path::block;
  const int blocks =
      draws ? blocks_of_draw(target.rows.vocab, task.target.batch, kThreads / kWarp) : 1;
  return launch_clusters(walk_chains_kernel, task.target.batch, blocks, kThreads, stream, task,
                         target, draft, result, blocks);
}

}  // namespace fairdraw::cuda
