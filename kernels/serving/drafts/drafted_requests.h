// Requests with drafted tokens, with their rows, distributions and random words.
#pragma once

#include <cstdint>

#include "common/proposals.h"
#include "cpu/batch.h"
#include "cpu/distribution_weights.h"
#include "serving/rules/drafted_request.h"

namespace fairdraw::cpu {

class DraftedRequests {
 public:
  DraftedRequests(const TargetRows& target, std::int64_t max_draft,
                  const View<const std::int32_t>& draft_tokens,
                  const View<const std::int32_t>& draft_lengths);

  /// Finds a request. Returns the status of a request, which is inactive, invalid_draft_length,
  /// index_out_of_range (for a drafted token) or ok.
  RowStatus find(std::int64_t b, DraftedRequest& request) const;

  /// Filters row `i` of a request with the request's parameters; afterwards, worker.sampler has the
  /// distribution of the row.
  RowStatus filter(std::int64_t b, const DraftedRequest& request, std::int64_t i,
                   Worker& worker) const;

  bool is_greedy(std::int64_t b) const { return fairdraw::is_greedy(parameters(b)); }
  /// Returns the words of the random draw that `sample` makes at a position.
  DrawWords draw_words(std::int64_t b, std::int64_t position) const;
  std::uint64_t word(std::int64_t b, std::int64_t position, Purpose purpose,
                     std::uint32_t sibling = 0) const;
  const std::int32_t* tokens(const DraftedRequest& request) const {
    return drafts_.tokens.data + request.place;
  }
  std::int64_t vocab() const { return rows_.logits.vocab; }

 private:
  RowParameters parameters(std::int64_t b) const;

  const TargetRows& target_;
  Drafts drafts_;
  SampleRequest rows_;
  FilterOptions options_;
};

/// Returns invalid_draft_tree for a malformed tree, invalid_draft_length for a path that is longer
/// than max_depth, and otherwise ok.
RowStatus check_tree(const std::int32_t* parents, std::int64_t drafts, std::int64_t max_depth,
                     bool has_distribution);

/// Rows of the distributions from which draft tokens were drawn.
class DraftDistributions {
 public:
  DraftDistributions(DraftLaw distribution, const RowsView& rows, const LawFilters& filters);

  /// Computes the weights of one row with the filters of request b. The distribution of a greedy
  /// draft has a single token, of probability 1.
  RowStatus weigh(std::int64_t b, std::int64_t row, Worker& worker,
                  DistributionWeights& distribution) const;

 private:
  const LawFilters& filters_;
  SampleRequest rows_;
  FilterOptions options_;
};

/// Copies the weights of the row that the worker's sampler has filtered.
void take_weights(Worker& worker, std::int64_t vocab, DistributionWeights& distribution);

/// Returns the sampling parameters of request b.
RowParameters parameters_of(const LawFilters& filters, std::int64_t b);
FilterOptions options_of(const LawFilters& filters);

}  // namespace fairdraw::cpu
