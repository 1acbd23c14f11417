#include "serving/drafts/drafted_requests.h"

#include <vector>

#include "common/philox.h"
#include "serving/rules/speculative_arguments.h"

namespace fairdraw::cpu {

RowParameters parameters_of(const LawFilters& filters, std::int64_t b) {
  return {filters.temperature.at(b), filters.top_k.at(b), filters.top_p.at(b), filters.min_p.at(b)};
}

FilterOptions options_of(const LawFilters& filters) {
  FilterOptions options;
  options.tie_rule = filters.tie_rule;
  options.filter_order = filters.filter_order;
  return options;
}

DraftedRequests::DraftedRequests(const TargetRows& target, std::int64_t max_draft,
                                 const View<const std::int32_t>& draft_tokens,
                                 const View<const std::int32_t>& draft_lengths)
    : target_(target),
      drafts_{max_draft, draft_tokens, draft_lengths},
      rows_(rows_of(target)),
      options_(options_of(target.filters)) {}

RowStatus DraftedRequests::find(std::int64_t b, DraftedRequest& request) const {
  return find_drafted_request(target_, drafts_, b, request);
}

RowStatus DraftedRequests::filter(std::int64_t b, const DraftedRequest& request, std::int64_t i,
                                  Worker& worker) const {
  return filter_row(rows_, request.row + i, parameters(b), options_, worker);
}

DrawWords DraftedRequests::draw_words(std::int64_t b, std::int64_t position) const {
  return {target_.seed.at(b), target_.offset.at(b) + static_cast<std::uint64_t>(position),
          Purpose::draw, static_cast<std::uint32_t>(target_.seed.is_array() ? 0 : b)};
}

std::uint64_t DraftedRequests::word(std::int64_t b, std::int64_t position, Purpose purpose,
                                    std::uint32_t sibling) const {
  const DrawWords words = draw_words(b, position);
  return random_word(words.seed, words.offset, purpose, words.index, sibling);
}

RowParameters DraftedRequests::parameters(std::int64_t b) const {
  return parameters_of(target_.filters, b);
}

RowStatus check_tree(const std::int32_t* parents, std::int64_t drafts, std::int64_t max_depth,
                     bool has_distribution) {
  thread_local std::vector<std::int64_t> depths;
  thread_local std::vector<std::int32_t> children;  // number of children of node j, at the index j
                                                    // + 1
  depths.assign(static_cast<std::size_t>(drafts), 1);
  children.assign(static_cast<std::size_t>(drafts) + 1, 0);
  bool fits = true;
  for (std::int64_t j = 0; j < drafts; ++j) {
    if (parents[j] < -1 || parents[j] >= j) return RowStatus::invalid_draft_tree;
    const std::int32_t siblings =
        ++children[static_cast<std::size_t>(std::int64_t{parents[j]} + 1)];
    if (has_distribution && siblings > kMaxSiblings) return RowStatus::invalid_draft_tree;
    std::int64_t& depth = depths[static_cast<std::size_t>(j)];
    if (parents[j] >= 0) depth += depths[static_cast<std::size_t>(parents[j])];
    fits = fits && depth <= max_depth;
  }
  return fits ? RowStatus::ok : RowStatus::invalid_draft_length;
}

DraftDistributions::DraftDistributions(DraftLaw distribution, const RowsView& rows,
                                       const LawFilters& filters)
    : filters_(filters), options_(options_of(filters)) {
  rows_.logits = rows;
  options_.from_probs = distribution == DraftLaw::probs;
}

RowStatus DraftDistributions::weigh(std::int64_t b, std::int64_t row, Worker& worker,
                                    DistributionWeights& distribution) const {
  const RowParameters parameters =
      options_.from_probs ? RowParameters{} : parameters_of(filters_, b);
  const RowStatus status = filter_row(rows_, row, parameters, options_, worker);
  if (status != RowStatus::ok) return status;
  if (!fairdraw::is_greedy(parameters)) {
    take_weights(worker, rows_.logits.vocab, distribution);
    return status;
  }
  const auto vocab = static_cast<std::size_t>(rows_.logits.vocab);
  distribution.make_room(vocab);
  std::fill_n(distribution.weight.begin(), vocab, std::uint64_t{0});
  distribution.weight[static_cast<std::size_t>(worker.sampler.draw(0))] = 1;  // for any word
  distribution.total = 1;
  return status;
}

void take_weights(Worker& worker, std::int64_t vocab, DistributionWeights& distribution) {
  distribution.make_room(static_cast<std::size_t>(vocab));
  distribution.total = worker.sampler.write_weights(distribution.weight.data());
}

}  // namespace fairdraw::cpu
