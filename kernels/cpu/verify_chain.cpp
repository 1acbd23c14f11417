// verify_chain (fairdraw/speculative.h): drafted tokens against the target's logits, in integers.
//
// Contract and semantics: see the header. Position by position, until one is rejected:
//   - the distribution of the draft unknown, or the request greedy: the target's token is drawn
//   with the
//     word of purpose draw, and the draft is accepted if it is that token. One filtered row, one
//     draw.
//   - the distribution known: two filtered rows and their weights; distribution_weights.h accepts,
//   or redraws.
//     Filters are part of both distributions: P is what `sample` would draw from, Q what it drew
//     from.
// A greedy draft is a point mass at its largest logit.
//
// Cost: rows after the first rejection are never read. The first rule costs what `sample` costs for
// the tokens that are emitted; the second adds, a position, the draft's row and two passes that
// write weights, and the residual (two passes of 128-bit sums) once where a draft is rejected.
//
// Randomness: position i uses offset + i. draw, accept, recover and bonus are purposes of their
// own, so that no two decisions share bits, at one position or at two.
// Determinism: integers throughout, no dependence on order, thread or instruction set.
#include <algorithm>
#include <vector>

#include "common/kept_arguments.h"
#include "common/speculative_arguments.h"
#include "cpu/distribution_weights.h"
#include "cpu/drafted_requests.h"
#include "cpu/kept_sets.h"
#include "fairdraw/speculative.h"

namespace fairdraw {
namespace {

using cpu::Worker;

/// What a thread keeps between requests.
struct Distributions {
  cpu::DistributionWeights target, draft;
};

class Chains {
 public:
  /// sets: null, or those of all places for tokens.
  Chains(const VerifyChainRequest& request, const VerifyChainResult& result, cpu::Survivors* sets)
      : request_(request),
        result_(result),
        sets_(sets),
        requests_(request.target, request.max_draft, request.draft_tokens, request.draft_lengths),
        drafts_(request.draft_law, request.draft, request.draft_filters) {}

  void run(std::int64_t b, Worker& worker) const {
    const std::int64_t width = request_.max_draft + 1;
    std::int32_t* const tokens = result_.tokens.data + b * width;
    std::fill_n(tokens, width, -1);
    std::int32_t accepted = 0;
    DraftedRequest request;
    RowStatus status = requests_.find(b, request);
    if (status == RowStatus::ok) {
      const bool by_distribution =
          request_.draft_law != DraftLaw::none && request.drafts > 0 && !requests_.is_greedy(b);
      status = by_distribution ? verify_by_distribution(b, request, worker, tokens, accepted)
                               : verify_by_draw(b, request, worker, tokens, accepted);
    }
    if (status != RowStatus::ok) {
      std::fill_n(tokens, width, -1);
      for (std::int64_t i = 0; sets_ != nullptr && i < width; ++i) set_of(b, i).clear();
      accepted = 0;
    }
    if (result_.accepted.given()) result_.accepted.data[b] = accepted;
    if (result_.statuses.given()) result_.statuses.data[b] = status;
  }

 private:
  std::vector<std::int32_t>& set_of(std::int64_t b, std::int64_t i) const {
    return (*sets_)[static_cast<std::size_t>(b * (request_.max_draft + 1) + i)];
  }
  /// The set of a place, whose row the worker's sampler has.
  void keep(std::int64_t b, std::int64_t i, Worker& worker) const {
    if (sets_ != nullptr) worker.sampler.list_survivors(set_of(b, i));
  }

  RowStatus verify_by_draw(std::int64_t b, const DraftedRequest& request, Worker& worker,
                           std::int32_t* tokens, std::int32_t& accepted) const {
    const std::int32_t* const drafted = requests_.tokens(request);
    for (std::int64_t i = 0;; ++i) {
      const RowStatus status = requests_.filter(b, request, i, worker);
      if (status != RowStatus::ok) return status;
      tokens[i] = worker.sampler.draw(requests_.word(b, i, Purpose::draw));
      keep(b, i, worker);
      if (i == request.drafts || tokens[i] != drafted[i]) return RowStatus::ok;
      ++accepted;
    }
  }

  RowStatus verify_by_distribution(std::int64_t b, const DraftedRequest& request, Worker& worker,
                                   std::int32_t* tokens, std::int32_t& accepted) const {
    thread_local Distributions distributions;
    const std::int32_t* const drafted = requests_.tokens(request);
    const auto vocab = static_cast<std::size_t>(requests_.vocab());
    for (std::int64_t i = 0; i < request.drafts; ++i) {
      RowStatus status = requests_.filter(b, request, i, worker);
      if (status != RowStatus::ok) return status;
      cpu::take_weights(worker, requests_.vocab(), distributions.target);
      keep(b, i, worker);
      status = drafts_.weigh(b, request.place + i, worker, distributions.draft);
      if (status != RowStatus::ok) return status;
      if (distributions.draft.weight[static_cast<std::size_t>(drafted[i])] == 0) {
        return RowStatus::impossible_draft;
      }
      const std::uint64_t word = requests_.word(b, i, Purpose::accept);
      if (!cpu::accepts(distributions.target, distributions.draft, drafted[i], word)) {
        tokens[i] = cpu::recover(distributions.target, distributions.draft, vocab,
                                 requests_.word(b, i, Purpose::recover));
        return RowStatus::ok;
      }
      tokens[i] = drafted[i];
      ++accepted;
    }
    const RowStatus status = requests_.filter(b, request, request.drafts, worker);
    if (status != RowStatus::ok) return status;
    cpu::take_weights(worker, requests_.vocab(), distributions.target);
    keep(b, request.drafts, worker);
    tokens[request.drafts] =
        cpu::draw(distributions.target, requests_.word(b, request.drafts, Purpose::bonus));
    return RowStatus::ok;
  }

  const VerifyChainRequest& request_;
  const VerifyChainResult& result_;
  cpu::Survivors* sets_;
  cpu::DraftedRequests requests_;
  cpu::DraftDistributions drafts_;
};

void verify(const VerifyChainRequest& request, const VerifyChainResult& result,
            const Execution& execution, cpu::Survivors* sets) {
  const Chains chains(request, result, sets);
  cpu::for_each_row(request.target.batch, execution,
                    [&chains](std::int64_t b, Worker& worker) { chains.run(b, worker); });
}

}  // namespace

Error verify_chain(const VerifyChainRequest& request, const VerifyChainResult& result,
                   const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_verify_chain(request, result)) return error;
  verify(request, result, execution, nullptr);
  return {};
}

Error verify_chain_with_kept_sets(const VerifyChainRequest& request,
                                  const VerifyChainResult& result, const KeptSets& kept,
                                  const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_verify_chain(request, result)) return error;
  const std::int64_t places = product_of(request.target.batch, request.max_draft + 1);
  if (Error error = check_kept(kept, places, "batch * (max_draft + 1)")) return error;
  cpu::Survivors sets(static_cast<std::size_t>(places));
  verify(request, result, execution, &sets);
  cpu::pack_sets(places, [&](std::int64_t i) { return &sets[static_cast<std::size_t>(i)]; }, kept);
  return {};
}

}  // namespace fairdraw
