// chain_speculative_sampling (fairdraw/sampling.h): verification of drafted tokens, in integers.
//
// Contract: see the declaration. Semantics: Leviathan et al. 2023, Chen et al. 2023, in the
// arithmetic of chain_draws.cuh.
// All positions are validated, those after a rejection too: a draft token out of range, then the
// first bad row in the order of positions, draft before target, fails the request.
//
// Algorithm and cost. Two launches. First a block a row, all rows of all requests at once: the
// maximum and what is wrong with the row, then the sum of its weights; two passes, the second from
// L2. The records go to the workspace. Then a block a request: each position's test needs two
// weights and two sums, so positions are tested side by side, and the row is read again only
// where a token is drawn: one position of a request, in one pass (two where the laws are equal)
// and 1/256 of another. Walking the positions with one block would read 2 n + 1 rows one after
// the other; so the first launch takes as long as reading the rows.
//
// Randomness: position i of a request uses offset + i; purposes accept, recover and bonus.
// Determinism: integers throughout; no dependence on order, grid or batch.
#include <math_constants.h>

#include <cstdint>

#include "block_sums.cuh"
#include "chain_draws.cuh"
#include "chain_speculative_sampling.h"
#include "philox.h"
#include "read_value.cuh"
#include "weight_rule.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;  // blocks stride over what is beyond

// --- First launch: rows ------------------------------------------------------------------------

enum RowFault : std::uint32_t { kNaN = 1, kInfinite = 2, kNegative = 4 };

/// In the order in which faults take precedence.
__device__ RowStatus status_of(std::uint32_t faults, float max) {
  if ((faults & kNaN) != 0) return RowStatus::nan_input;
  if ((faults & kInfinite) != 0) return RowStatus::infinite_input;
  if ((faults & kNegative) != 0) return RowStatus::negative_probability;
  return max > 0.0F ? RowStatus::ok : RowStatus::no_allowed_token;
}

struct RowScratch {
  BlockScratch<std::uint32_t> faults;
  BlockScratch<float> max;
  BlockScratch<std::uint64_t> sum;
};

__device__ void measure_row(const RowsView& rows, std::int64_t number, RowRecord& record,
                            RowScratch& scratch) {
  const RowValues values = RowValues::of(rows, number);
  const auto thread = static_cast<int>(threadIdx.x);
  std::uint32_t faults = 0;
  float max = 0.0F;
  visit_values(values, rows.vocab, thread, kThreads, [&](float x) {
    if (x != x) faults |= kNaN;
    if (x == CUDART_INF_F) faults |= kInfinite;
    if (x < 0.0F) faults |= kNegative;
    max = fmaxf(max, x);  // keeps the other operand where one is NaN
  });
  faults =
      reduce_block(faults, scratch.faults, [](std::uint32_t a, std::uint32_t b) { return a | b; });
  max = reduce_block(max, scratch.max, Maximum{});
  const RowStatus status = status_of(faults, max);
  std::uint64_t sum = 0;
  if (status == RowStatus::ok) {
    const WeightRule weigh = WeightRule::of_probs(max);
    visit_values(values, rows.vocab, thread, kThreads, [&](float x) { sum += weigh(x); });
    sum = reduce_block(sum, scratch.sum, Add{});
  }
  if (thread != 0) return;
  record = {status, -1, max, CUDART_MIN_DENORM_F, static_cast<std::int32_t>(rows.vocab), 0, sum};
}

__global__ void __launch_bounds__(kThreads) measure_rows_kernel(ChainTask task) {
  __shared__ RowScratch scratch;
  const std::int64_t targets = task.request.target_probs.rows;
  const std::int64_t all = targets + task.draft_rows();
  for (std::int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    const bool is_target = i < targets;
    measure_row(is_target ? task.request.target_probs : task.request.draft_probs,
                is_target ? i : i - targets, task.records[i], scratch);
  }
}

// --- Second launch: requests -------------------------------------------------------------------

/// Weights of a measured row.
struct RowWeight {
  RowValues values;
  WeightRule weigh;
  __device__ std::uint64_t operator()(std::int64_t token) const { return weigh(values[token]); }
};

__device__ Law<RowWeight> law_of(const RowsView& rows, std::int64_t number,
                                 const RowRecord& record) {
  return {{RowValues::of(rows, number), WeightRule::of_probs(record.max)}, record.total};
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
  __device__ Law<RowWeight> target(std::int64_t i) const {
    return law_of(task.request.target_probs, b * (n + 1) + i, target_record(i));
  }
  __device__ Law<RowWeight> draft(std::int64_t i) const {
    return law_of(task.request.draft_probs, b * n + i, draft_record(i));
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

/// The token after the emitted ones: of the residual, or the bonus. Valid in the first warp.
__device__ std::int32_t last_token(const Chain& chain, std::int64_t position,
                                   ChainScratch& scratch) {
  const std::int64_t vocab = chain.task.request.target_probs.vocab;
  const Law<RowWeight> target = chain.target(position);
  if (position == chain.n) {
    return draw_from_target(scratch.sums, vocab, chain.word(position, Purpose::bonus), target);
  }
  return draw_residual(scratch.sums, vocab, chain.word(position, Purpose::recover), target,
                       chain.draft(position));
}

__device__ void verify_chain(const Chain& chain, ChainScratch& scratch) {
  const ChainSpeculativeResult& result = chain.task.result;
  const Verdict verdict = test_positions(chain, scratch);
  const bool ok = verdict.status == RowStatus::ok;
  const std::int32_t last = ok ? last_token(chain, verdict.emitted, scratch) : -1;
  std::int32_t* tokens = result.tokens.data + chain.b * (chain.n + 1);
  for (std::int64_t i = threadIdx.x; i <= chain.n; i += blockDim.x) {
    if (ok && i == verdict.emitted) continue;
    tokens[i] = ok && i < verdict.emitted ? chain.drafted(i) : -1;
  }
  if (threadIdx.x != 0) return;
  if (ok) tokens[verdict.emitted] = last;
  if (result.accepted.given()) {
    result.accepted.data[chain.b] = static_cast<std::int32_t>(verdict.accepted);
  }
  if (result.emitted.given()) {
    result.emitted.data[chain.b] = static_cast<std::int32_t>(verdict.emitted);
  }
  if (result.statuses.given()) result.statuses.data[chain.b] = verdict.status;
}

__global__ void __launch_bounds__(kThreads) verify_chains_kernel(ChainTask task) {
  __shared__ ChainScratch scratch;
  for (std::int64_t b = blockIdx.x; b < task.request.batch; b += gridDim.x) {
    verify_chain({task, b, task.request.num_draft_tokens}, scratch);
  }
}

cudaLaunchConfig_t config_for(std::int64_t blocks, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return config;
}

}  // namespace

cudaError_t verify_chains(const ChainTask& task, cudaStream_t stream) {
  const std::int64_t rows = task.request.target_probs.rows + task.draft_rows();
  const cudaLaunchConfig_t by_row = config_for(rows, stream);
  const cudaError_t launched = cudaLaunchKernelEx(&by_row, measure_rows_kernel, task);
  if (launched != cudaSuccess) return launched;
  const cudaLaunchConfig_t by_request = config_for(task.request.batch, stream);
  return cudaLaunchKernelEx(&by_request, verify_chains_kernel, task);
}

}  // namespace fairdraw::cuda
