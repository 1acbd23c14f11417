#include "harness/run/calls/speculation_request.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "harness/contract/serving.h"
#include "harness/contract/serving_arrays.h"
#include "harness/run/calls/kept_answers.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/calls/request_arrays.h"

namespace fairdraw::harness {
namespace {

// The inputs of the call that the request stores in another form. The fields have the same names as
// in fairdraw_verification.
struct SpeculationInputs : FilterArrays {
  Encoded target, draft;
  std::vector<float> draft_temperature, draft_top_p, draft_min_p;
  std::vector<std::int32_t> draft_top_k;
  std::vector<std::int32_t> parents;
  ProcessingArrays processing;

  explicit SpeculationInputs(const SpeculationRequest& request)
      : FilterArrays(request.parameters),
        target(request.dtype, request.target),
        draft(request.dtype, request.draft_law != DraftLaw::none ? std::span(request.draft)
                                                                 : std::span<const float>()),
        processing(pack(request.processing, request.vocab, request.history_form)) {
    if (request.draft_law == DraftLaw::logits) {
      FilterArrays filters(request.draft_parameters);
      draft_temperature = std::move(filters.temperature);
      draft_top_k = std::move(filters.top_k);
      draft_top_p = std::move(filters.top_p);
      draft_min_p = std::move(filters.min_p);
    }
    // A call with trees needs a pointer `parents` that is not null.
    if (request.trees) parents = request.parents.empty() ? std::vector{-1} : request.parents;
  }
};

struct RequestRows {
  std::int64_t row, place, drafts;
};

std::optional<RequestRows> place_of(const SpeculationRequest& request, std::int64_t b) {
  const auto at = static_cast<std::size_t>(b);
  const bool packed = !request.row_begins.empty();
  const std::int64_t begin = packed ? request.row_begins[at] : b * (request.max_draft + 1);
  const std::int64_t end = packed ? request.row_begins[at + 1] : begin + request.max_draft + 1;
  if (begin < b || end > request.rows() || end <= begin) return std::nullopt;
  const std::int64_t room = std::min(end - begin - 1, request.max_draft);
  const std::int64_t drafts =
      request.draft_lengths.empty() ? end - begin - 1 : request.draft_lengths[at];
  if (drafts < 0 || drafts > room || begin - b + drafts > request.places()) return std::nullopt;
  return RequestRows{begin, begin - b, drafts};
}

std::vector<float> row_of(const std::vector<float>& matrix, std::int64_t row, std::int64_t vocab) {
  const auto first = matrix.begin() + row * vocab;
  return {first, first + vocab};
}

}  // namespace

bool takes_drafts(const SamplerDescription& sampler, DraftLaw distribution) {
  switch (distribution) {
    case DraftLaw::none:
      return sampler.drafts.unknown;
    case DraftLaw::probs:
      return sampler.drafts.probs;
    case DraftLaw::logits:
      return sampler.drafts.logits;
  }
  return false;
}

bool is_greedy(const reference::RowParameters& parameters) {
  return parameters.temperature == 0 || parameters.top_k == 1 || parameters.top_p == 0;
}

reference::IntegerRow DistributionRow::model() const {
  if (from_probs) return model_of_probs(values, parameters, filter_order);
  if (processing) {
    return reference::integer_model(values, allowed, *processing, parameters, tie_rule,
                                    filter_order);
  }
  return model_of_logits(values, allowed, parameters, tie_rule, filter_order);
}

std::vector<float> DistributionRow::processed() const {
  return reference::process_row(values, allowed,
                                processing ? *processing : reference::RowProcessing{})
      .logits;
}

reference::RowProcessing processing_behind(const reference::RowProcessing& row,
                                           std::span<const std::int32_t> prefix) {
  reference::RowProcessing behind = row;
  behind.output.insert(behind.output.end(), prefix.begin(), prefix.end());
  for (const std::int32_t token : prefix) {
    if (behind.output_counts) ++(*behind.output_counts)[static_cast<std::size_t>(token)];
  }
  behind.output_length += static_cast<std::int32_t>(prefix.size());
  return behind;
}

DraftedTokens split_request(const SpeculationRequest& request, std::int64_t b) {
  const auto at = static_cast<std::size_t>(b);
  DraftedTokens taken;
  taken.tree = request.trees;
  taken.siblings = request.siblings;
  taken.vocab = static_cast<std::size_t>(request.vocab);
  taken.max_depth = static_cast<std::size_t>(request.max_depth);
  if (!request.active.empty() && request.active[at] == 0) {
    taken.status = RowStatus::inactive;
    return taken;
  }
  const std::optional<RequestRows> place = place_of(request, b);
  if (!place) {
    taken.status = RowStatus::invalid_draft_length;
    return taken;
  }
  const std::size_t s = request.seed_is_scalar ? 0 : at;
  const auto index = static_cast<std::uint32_t>(request.seed_is_scalar ? b : 0);
  for (std::int64_t i = 0; i <= place->drafts; ++i) {
    DistributionRow row{row_of(request.target, place->row + i, request.vocab),
                        false,
                        {},
                        request.parameters[at],
                        request.tie_rule,
                        request.filter_order};
    if (!request.processing.empty()) {
      row.processing = request.processing[static_cast<std::size_t>(place->row + i)];
    }
    if (!request.allowed.empty()) {
      const std::int64_t words = words_for(request.vocab);
      const auto first = request.allowed.begin() + (place->row + i) * words;
      row.allowed.assign(first, first + words);
    }
    taken.target.push_back(std::move(row));
    const auto word = [&](Purpose purpose, std::int64_t sibling = 0) {
      return random_word(request.seed[s], request.offset[s] + static_cast<std::uint64_t>(i),
                         purpose, index, static_cast<std::uint32_t>(sibling));
    };
    taken.words.push_back(
        {word(Purpose::draw), word(Purpose::accept), word(Purpose::recover), word(Purpose::bonus)});
    taken.words.back().attempts = [seed = request.seed[s], index,
                                   offset = request.offset[s] +
                                            static_cast<std::uint64_t>(i)](std::uint32_t attempt) {
      return random_word(seed, offset, Purpose::draw, index, attempt);
    };
    for (std::int64_t k = 1; request.trees && k < place->drafts; ++k) {
      taken.words.back().accept_next.push_back(word(Purpose::accept, k));
    }
    const bool drafted = i < place->drafts;
    const std::int64_t draft = place->place + i;
    if (request.draft_law != DraftLaw::none && (drafted || request.trees)) {
      const bool probs = request.draft_law == DraftLaw::probs;
      taken.draft.push_back(
          {row_of(request.draft, request.trees ? place->row + i : draft, request.vocab),
           probs,
           {},
           probs ? reference::RowParameters{} : request.draft_parameters[at],
           request.tie_rule,
           request.filter_order});
    }
    if (!drafted) break;
    taken.drafted.push_back(request.draft_tokens[static_cast<std::size_t>(draft)]);
    if (request.trees) taken.parents.push_back(request.parents[static_cast<std::size_t>(draft)]);
  }
  return taken;
}

reference::SpeculationOutcome outcome_of(const DraftedTokens& request) {
  if (request.status != RowStatus::ok) return {request.status, {}, {}, 0};
  std::vector<reference::IntegerRow> target, draft;
  for (const DistributionRow& row : request.target) target.push_back(row.model());
  for (const DistributionRow& row : request.draft) draft.push_back(row.model());
  if (request.tree) {
    return accept_tree_model(
        target, request.drafted, request.parents, request.words, request.vocab, request.max_depth,
        {draft, request.siblings, is_greedy(request.target.front().parameters)});
  }
  return accept_chain_model(target, draft, request.drafted, request.words, request.vocab,
                            is_greedy(request.target.front().parameters));
}

SpeculationResponse run_speculation(Sampler& sampler, const SpeculationRequest& request) {
  SpeculationResponse response;
  if (broke(sampler, response)) return response;
  fairdraw_verification call{};
  call.struct_size = sizeof(call);
  call.dtype = static_cast<std::uint32_t>(request.dtype);
  call.batch = request.batch;
  call.max_draft = request.max_draft;
  call.max_depth = request.max_depth;
  call.rows = request.rows();
  call.places = request.places();
  call.vocab = request.vocab;
  call.tie_rule = static_cast<std::uint32_t>(request.tie_rule);
  call.filter_order = static_cast<std::uint32_t>(request.filter_order);
  call.seed_is_scalar = request.seed_is_scalar ? 1 : 0;
  call.draft_law = static_cast<std::uint32_t>(request.draft_law);
  call.siblings = static_cast<std::uint32_t>(request.siblings);

  const SpeculationInputs prepared(request);
  const struct {
    bool tokens, nodes, accepted, statuses;
  } room{true, request.counts && request.trees, request.counts,
         request.counts && sampler.description().reports_status};
  PlacedArrays arrays(sampler.memory());
  place_arrays(arrays, call, prepared, request, room, response);
  answer_call(sampler, arrays, response, [&] { return sampler.run_serving({&call}); });
  return response;
}

}  // namespace fairdraw::harness
