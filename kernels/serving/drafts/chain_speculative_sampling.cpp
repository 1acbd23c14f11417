// Implementation of chain_speculative_sampling (fairdraw/sampling.h), which accepts or rejects
// drafted tokens in integer arithmetic.
//
// The contract is given at the declaration in fairdraw/sampling.h. Semantics: the rules are those
// of Leviathan et al. 2023 and Chen et al. 2023. P are the target's weights with the sum Zp, Q are
// the draft's weights with the sum Zq, and x is the drafted token of a position.
//   accept    if P_x > 0 and (P_x Zq >= Q_x Zp or floor(r Q_x Zp / 2^64) < P_x Zq),
//   residual  R_j = max(P_j Zq - Q_j Zp, 0), drawn by its prefix sums in token-id order.
// Neither rule divides, so the comparisons are exact: products of weights and sums have up to 100
// bits, sums of residuals up to 120 bits, and products with a random word up to 192 bits.
//
// Algorithm: two passes over each position compute the weights. The code that accepts and recovers,
// and a proof that there is always something to draw, are in distribution_weights.h. The residual
// is summed and searched only after a drafted token has been rejected.
//
// Randomness: position i of a request uses offset + i, with the purposes accept, recover and bonus.
// Determinism: all arithmetic is done with integers, and results do not depend on order, threads or
// the instruction set.
#include <algorithm>

#include "common/philox.h"
#include "cpu/batch.h"
#include "cpu/distribution_weights.h"
#include "fairdraw/speculative.h"
#include "serving/rules/speculative_arguments.h"

namespace fairdraw {
namespace {

using cpu::DistributionWeights;
using cpu::Worker;

/// Buffers of a thread, which later requests use again.
struct Buffers {
  DistributionWeights target, draft;
};

RowStatus read_weights(const RowsView& probs, std::int64_t row, Worker& worker,
                       DistributionWeights& out) {
  RowStatus status = RowStatus::ok;
  const auto vocab = static_cast<std::size_t>(probs.vocab);
  const float* values = worker.reader.read(*worker.passes, probs, row, nullptr, true, status);
  cpu::FilterOptions options;
  options.from_probs = true;
  status = worker.sampler.filter(values, vocab, RowParameters{}, options);
  if (status != RowStatus::ok) return status;
  out.make_room(vocab);
  out.total = worker.sampler.write_weights(out.weight.data());
  return RowStatus::ok;
}

class Chain {
 public:
  Chain(const ChainSpeculativeRequest& request, const ChainSpeculativeResult& result)
      : request_(request), result_(result), vocab_(request.target_probs.vocab) {}

  void run(std::int64_t b, Worker& worker) const {
    thread_local Buffers buffers;
    const std::int64_t n = request_.num_draft_tokens;
    std::int32_t* tokens = result_.tokens.data + b * (n + 1);
    std::fill_n(tokens, n + 1, -1);
    std::int32_t accepted = 0;
    std::int32_t emitted = 0;
    const RowStatus status = accept(b, worker, buffers, tokens, accepted, emitted);
    if (status != RowStatus::ok) {
      std::fill_n(tokens, n + 1, -1);
      accepted = emitted = 0;
    }
    if (result_.accepted.given()) result_.accepted.data[b] = accepted;
    if (result_.emitted.given()) result_.emitted.data[b] = emitted;
    if (result_.statuses.given()) result_.statuses.data[b] = status;
  }

 private:
  std::uint64_t word(std::int64_t b, std::int64_t position, Purpose purpose) const {
    const std::uint64_t offset = request_.offset.at(b) + static_cast<std::uint64_t>(position);
    const auto index = static_cast<std::uint32_t>(request_.seed.is_array() ? 0 : b);
    return random_word(request_.seed.at(b), offset, purpose, index);
  }

  RowStatus accept(std::int64_t b, Worker& worker, Buffers& buffers, std::int32_t* tokens,
                   std::int32_t& accepted, std::int32_t& emitted) const {
    const std::int64_t n = request_.num_draft_tokens;
    const std::int32_t* drafted = request_.draft_tokens.data + b * n;
    for (std::int64_t i = 0; i < n; ++i) {
      if (drafted[i] < 0 || drafted[i] >= vocab_) return RowStatus::index_out_of_range;
    }
    bool rejected = false;
    for (std::int64_t i = 0; i < n; ++i) {
      RowStatus status = read_weights(request_.draft_probs, b * n + i, worker, buffers.draft);
      if (status != RowStatus::ok) return status;
      status = read_weights(request_.target_probs, b * (n + 1) + i, worker, buffers.target);
      if (status != RowStatus::ok) return status;
      const bool accepts =
          cpu::accepts(buffers.target, buffers.draft, drafted[i], word(b, i, Purpose::accept));
      accepted += accepts ? 1 : 0;
      if (rejected) continue;
      if (accepts) {
        tokens[i] = drafted[i];
        ++emitted;
      } else {
        tokens[i] = cpu::recover(buffers.target, buffers.draft, static_cast<std::size_t>(vocab_),
                                 word(b, i, Purpose::recover));
        rejected = true;
      }
    }
    const RowStatus status =
        read_weights(request_.target_probs, b * (n + 1) + n, worker, buffers.target);
    if (status != RowStatus::ok) return status;
    if (!rejected) tokens[n] = cpu::draw(buffers.target, word(b, n, Purpose::bonus));
    return RowStatus::ok;
  }

  const ChainSpeculativeRequest& request_;
  const ChainSpeculativeResult& result_;
  std::int64_t vocab_;
};

}  // namespace

Error chain_speculative_sampling(const ChainSpeculativeRequest& request,
                                 const ChainSpeculativeResult& result, const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_chain(request, result)) return error;
  const Chain chain(request, result);
  cpu::for_each_row(request.batch, execution,
                    [&chain](std::int64_t b, Worker& worker) { chain.run(b, worker); });
  return {};
}

}  // namespace fairdraw
