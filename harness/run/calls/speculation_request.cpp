#include "harness/run/calls/speculation_request.h"

#include <algorithm>
#include <optional>

#include "harness/run/calls/random_words.h"
#include "harness/run/calls/request_arrays.h"
#include "harness/run/calls/request_processing.h"

namespace fairdraw::harness {
namespace {

/// Values as they lie in memory, in the dtype.
std::vector<std::byte> encoded(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * element_size(dtype));
  encode(dtype, values.data(), values.size(), bytes.data());
  return bytes;
}

/// Filters as four arrays, one value a request.
struct FilterArrays {
  std::vector<float> temperature, top_p, min_p;
  std::vector<std::int32_t> top_k;

  explicit FilterArrays(const std::vector<reference::RowParameters>& parameters) {
    for (const reference::RowParameters& p : parameters) {
      temperature.push_back(p.temperature);
      top_k.push_back(p.top_k);
      top_p.push_back(p.top_p);
      min_p.push_back(p.min_p);
    }
  }
};

template <class T>
const T* optional(const Placed<T>& placed, const std::vector<T>& values) {
  return values.empty() ? nullptr : placed.data();
}

struct Place {
  std::int64_t row, place, drafts;
};

std::optional<Place> place_of(const SpeculationRequest& request, std::int64_t b) {
  const auto at = static_cast<std::size_t>(b);
  const bool packed = !request.row_begins.empty();
  const std::int64_t begin = packed ? request.row_begins[at] : b * (request.max_draft + 1);
  const std::int64_t end = packed ? request.row_begins[at + 1] : begin + request.max_draft + 1;
  if (begin < b || end > request.rows() || end <= begin) return std::nullopt;
  const std::int64_t room = std::min(end - begin - 1, request.max_draft);
  const std::int64_t drafts =
      request.draft_lengths.empty() ? end - begin - 1 : request.draft_lengths[at];
  if (drafts < 0 || drafts > room || begin - b + drafts > request.places()) return std::nullopt;
  return Place{begin, begin - b, drafts};
}

std::vector<float> row_of(const std::vector<float>& matrix, std::int64_t row, std::int64_t vocab) {
  const auto first = matrix.begin() + row * vocab;
  return {first, first + vocab};
}

}  // namespace

bool is_greedy(const reference::RowParameters& parameters) {
  return parameters.temperature == 0 || parameters.top_k == 1 || parameters.top_p == 0;
}

reference::IntegerRow DistributionRow::model() const {
  if (from_probs) return reference::integer_model_from_probs(values, parameters, filter_order);
  if (processing) {
    return reference::integer_model(values, allowed, *processing, parameters, tie_rule,
                                    filter_order);
  }
  return reference::integer_model(values, allowed, parameters, tie_rule, filter_order);
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
  const std::optional<Place> place = place_of(request, b);
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
    return verify_tree_model(
        target, request.drafted, request.parents, request.words, request.vocab, request.max_depth,
        {draft, request.siblings, is_greedy(request.target.front().parameters)});
  }
  return verify_chain_model(target, draft, request.drafted, request.words, request.vocab,
                            is_greedy(request.target.front().parameters));
}

SpeculationResponse run_speculation(Sampler& sampler, const SpeculationRequest& request) {
  SpeculationResponse response;
  if (broke(sampler, response)) return response;
  Memory* const memory = sampler.memory();
  const bool counts = request.counts;
  const std::int64_t batch = request.batch, width = request.width();
  Guarded<std::int32_t> tokens(memory, true, batch * (width + 1), kUnwritten);
  Guarded<std::int32_t> nodes(memory, counts && request.trees, batch * width, kUnwritten);
  Guarded<std::int32_t> accepted(memory, counts, batch, kUnwritten);
  Guarded<std::int32_t> statuses(memory, counts && sampler.description().reports_status, batch,
                                 kUnwritten);

  const std::vector<std::byte> target_bytes = encoded(request.dtype, request.target);
  const std::vector<std::byte> draft_bytes = encoded(request.dtype, request.draft);
  const Placed target(memory, target_bytes), draft(memory, draft_bytes);
  const FilterArrays filters(request.parameters), draft_filters(request.draft_parameters);
  const Placed temperature(memory, filters.temperature), top_p(memory, filters.top_p);
  const Placed min_p(memory, filters.min_p);
  const Placed top_k(memory, filters.top_k), draft_top_k(memory, draft_filters.top_k);
  const Placed draft_temperature(memory, draft_filters.temperature);
  const Placed draft_top_p(memory, draft_filters.top_p), draft_min_p(memory, draft_filters.min_p);
  const Placed allowed(memory, request.allowed);
  const Placed row_begins(memory, request.row_begins);
  const Placed active(memory, request.active);
  const Placed seed(memory, request.seed), offset(memory, request.offset);
  const Placed draft_tokens(memory, request.draft_tokens);
  const Placed draft_lengths(memory, request.draft_lengths), parents(memory, request.parents);
  const std::vector<std::int32_t> no_parent = {-1};  // never NULL in a call of trees
  const Placed root_alone(memory, no_parent);

  fairdraw_verification call{};
  call.struct_size = sizeof(call);
  call.dtype = static_cast<std::uint32_t>(request.dtype);
  call.batch = batch;
  call.max_draft = request.max_draft;
  call.max_depth = request.max_depth;
  call.rows = request.rows();
  call.places = request.places();
  call.vocab = request.vocab;
  call.target = target.data();
  call.temperature = temperature.data();
  call.top_k = top_k.data();
  call.top_p = top_p.data();
  call.min_p = min_p.data();
  call.tie_rule = static_cast<std::uint32_t>(request.tie_rule);
  call.filter_order = static_cast<std::uint32_t>(request.filter_order);
  call.allowed = optional(allowed, request.allowed);
  call.row_begins = optional(row_begins, request.row_begins);
  call.active = optional(active, request.active);
  call.seed_is_scalar = request.seed_is_scalar ? 1 : 0;
  call.seed = seed.data();
  call.offset = offset.data();
  call.draft_tokens = optional(draft_tokens, request.draft_tokens);
  call.draft_lengths = optional(draft_lengths, request.draft_lengths);
  if (request.trees) call.parents = request.parents.empty() ? root_alone.data() : parents.data();
  call.draft_law = static_cast<std::uint32_t>(request.draft_law);
  if (request.draft_law != DraftLaw::none) call.draft = optional(draft, draft_bytes);
  if (request.draft_law == DraftLaw::logits) {
    call.draft_temperature = draft_temperature.data();
    call.draft_top_k = draft_top_k.data();
    call.draft_top_p = draft_top_p.data();
    call.draft_min_p = draft_min_p.data();
  }
  call.tokens = tokens.data();
  call.nodes = nodes.data();
  call.accepted = accepted.data();
  call.statuses = statuses.data();
  call.siblings = static_cast<std::uint32_t>(request.siblings);

  ReadOnly inputs;
  PlacedProcessing processing(memory, request.processing, request.vocab, request.history_form);
  processing.give(call.processing, inputs);
  const auto requests = static_cast<std::size_t>(batch);
  inputs.watch_bytes("target", call.target, target_bytes.size());
  inputs.watch_bytes("draft", draft.data(), draft_bytes.size());
  inputs.watch("temperature", call.temperature, requests);
  inputs.watch("top_k", call.top_k, requests);
  inputs.watch("top_p", call.top_p, requests);
  inputs.watch("min_p", call.min_p, requests);
  inputs.watch("the bitmask", call.allowed, request.allowed.size());
  inputs.watch("row_begins", call.row_begins, request.row_begins.size());
  inputs.watch("active", call.active, request.active.size());
  inputs.watch("seed", call.seed, request.seed.size());
  inputs.watch("offset", call.offset, request.offset.size());
  inputs.watch("draft_tokens", call.draft_tokens, request.draft_tokens.size());
  inputs.watch("draft_lengths", call.draft_lengths, request.draft_lengths.size());
  inputs.watch("parents", parents.data(), request.parents.size());

  response.refused = sampler.run_speculation(call);
  if (broke(sampler, response)) return response;
  response.damage = damage_of(inputs, std::pair("tokens", &tokens), std::pair("nodes", &nodes),
                              std::pair("accepted", &accepted), std::pair("statuses", &statuses));
  response.tokens = tokens.take();
  response.nodes = nodes.take();
  response.accepted = accepted.take();
  response.statuses = statuses.take();
  return response;
}

}  // namespace fairdraw::harness
