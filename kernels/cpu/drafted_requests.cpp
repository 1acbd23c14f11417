#include "drafted_requests.h"

#include "philox.h"
#include "speculative_arguments.h"

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

std::uint64_t DraftedRequests::word(std::int64_t b, std::int64_t position, Purpose purpose) const {
  const std::uint64_t offset = target_.offset.at(b) + static_cast<std::uint64_t>(position);
  const auto index = static_cast<std::uint32_t>(target_.seed.is_array() ? 0 : b);
  return random_word(target_.seed.at(b), offset, purpose, index);
}

RowParameters DraftedRequests::parameters(std::int64_t b) const {
  return parameters_of(target_.filters, b);
}

}  // namespace fairdraw::cpu
