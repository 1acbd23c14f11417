#include "drafted_requests.h"

#include <algorithm>

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
      max_draft_(max_draft),
      draft_tokens_(draft_tokens),
      draft_lengths_(draft_lengths),
      rows_(rows_of(target)),
      options_(options_of(target.filters)) {}

RowStatus DraftedRequests::find(std::int64_t b, DraftedRequest& request) const {
  if (target_.active.given() && target_.active.data[b] == 0) return RowStatus::inactive;
  const std::int64_t rows = rows_.logits.rows;
  const bool packed = target_.row_begins.given();
  const std::int64_t begin = packed ? target_.row_begins.data[b] : b * (max_draft_ + 1);
  const std::int64_t end = packed ? target_.row_begins.data[b + 1] : begin + max_draft_ + 1;
  // Begins of a request in front of which others have no row would put its drafts before the
  // array; each test comes before the subtraction that it makes safe.
  if (begin < b || end <= begin || end > rows) return RowStatus::invalid_draft_length;
  const std::int64_t places = end - begin - 1;
  request.row = begin;
  request.place = begin - b;
  request.drafts = draft_lengths_.given() ? draft_lengths_.data[b] : places;
  if (request.drafts < 0 || request.drafts > std::min(places, max_draft_) ||
      request.drafts > draft_tokens_.size - request.place) {
    return RowStatus::invalid_draft_length;
  }
  const std::int32_t* const drafted = tokens(request);
  const bool in_vocabulary =
      std::all_of(drafted, drafted + request.drafts,
                  [this](std::int32_t token) { return token >= 0 && token < vocab(); });
  return in_vocabulary ? RowStatus::ok : RowStatus::index_out_of_range;
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
