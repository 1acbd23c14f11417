// Translates chains and requests with drafted tokens from the contract to fairdraw/sampling.h and
// fairdraw/speculative.h, as views of the call's own arrays in host or device memory.
#pragma once

#include "fairdraw/sampling.h"
#include "fairdraw/speculative.h"
#include "harness/adapters/sample_view.h"
#include "harness/contract/drafts.h"

namespace fairdraw::harness {

inline ChainSpeculativeRequest chain_sampling_request_of(const fairdraw_chain& chain) {
  const auto dtype = static_cast<DType>(chain.dtype);
  const std::int64_t drafts = chain.batch * chain.num_draft_tokens;
  ChainSpeculativeRequest request;
  request.draft_probs = {chain.draft_probs, dtype, drafts, chain.vocab, chain.vocab};
  request.draft_tokens = {chain.draft_tokens, drafts};
  request.target_probs = {chain.target_probs, dtype, drafts + chain.batch, chain.vocab,
                          chain.vocab};
  request.batch = chain.batch;
  request.num_draft_tokens = chain.num_draft_tokens;
  request.seed = seeds_of(chain.seed, chain.seed_is_scalar, chain.batch);
  request.offset = seeds_of(chain.offset, chain.seed_is_scalar, chain.batch);
  return request;
}

inline ChainSpeculativeResult chain_sampling_result_of(const fairdraw_chain& chain,
                                                       View<RowStatus> statuses) {
  return {{chain.tokens, chain.batch * (chain.num_draft_tokens + 1)},
          view_or_none(chain.accepted, chain.batch),
          view_or_none(chain.emitted, chain.batch),
          statuses};
}

inline TargetRows target_of(const fairdraw_verification& call) {
  const std::int64_t batch = call.batch;
  TargetRows target;
  target.logits = {call.target, static_cast<DType>(call.dtype), call.rows, call.vocab, call.vocab};
  target.filters.temperature = {call.temperature, batch};
  target.filters.top_k = {call.top_k, batch};
  target.filters.top_p = {call.top_p, batch};
  target.filters.min_p = {call.min_p, batch};
  target.filters.tie_rule = static_cast<TieRule>(call.tie_rule);
  target.filters.filter_order = static_cast<FilterOrder>(call.filter_order);
  if (call.allowed != nullptr) target.allowed = {call.allowed, call.rows, words_for(call.vocab)};
  target.processing = processing_of(call.processing, call.rows, call.vocab);
  target.batch = batch;
  target.row_begins = view_or_none(call.row_begins, batch + 1);
  target.active = view_or_none(call.active, batch);
  target.seed = seeds_of(call.seed, call.seed_is_scalar, batch);
  target.offset = seeds_of(call.offset, call.seed_is_scalar, batch);
  return target;
}

inline LawFilters draft_filters_of(const fairdraw_verification& call) {
  const std::int64_t batch = call.batch;
  LawFilters filters;
  if (static_cast<DraftLaw>(call.draft_law) == DraftLaw::logits) {
    filters.temperature = {call.draft_temperature, batch};
    filters.top_k = {call.draft_top_k, batch};
    filters.top_p = {call.draft_top_p, batch};
    filters.min_p = {call.draft_min_p, batch};
  }
  filters.tie_rule = static_cast<TieRule>(call.tie_rule);
  filters.filter_order = static_cast<FilterOrder>(call.filter_order);
  return filters;
}

/// Returns the distribution of the drafts, which has `rows` rows.
inline RowsView draft_of(const fairdraw_verification& call, std::int64_t rows) {
  return {call.draft, static_cast<DType>(call.dtype), rows, call.vocab, call.vocab};
}

inline AcceptTreeRequest tree_request_of(const fairdraw_verification& call) {
  AcceptTreeRequest request;
  request.target = target_of(call);
  request.max_draft = call.max_draft;
  request.max_depth = call.max_depth;
  request.draft_tokens = {call.draft_tokens, call.places};
  request.parents = {call.parents, call.places};
  request.draft_lengths = view_or_none(call.draft_lengths, call.batch);
  request.draft_law = static_cast<DraftLaw>(call.draft_law);
  request.siblings = static_cast<SiblingSampling>(call.siblings);
  request.draft = draft_of(call, call.rows);
  request.draft_filters = draft_filters_of(call);
  return request;
}

inline AcceptChainRequest chain_request_of(const fairdraw_verification& call) {
  const AcceptTreeRequest tree = tree_request_of(call);
  return {tree.target,        tree.max_draft, tree.draft_tokens,
          tree.draft_lengths, tree.draft_law, draft_of(call, call.places),
          tree.draft_filters};
}

/// Returns the library's struct for the results of a call. The argument `statuses` is separate,
/// because the contract stores statuses as plain integers.
inline AcceptChainResult chain_result_of(const fairdraw_verification& call,
                                         View<RowStatus> statuses) {
  return {{call.tokens, call.batch * (call.max_draft + 1)},
          view_or_none(call.accepted, call.batch),
          statuses};
}

inline AcceptTreeResult tree_result_of(const fairdraw_verification& call,
                                       View<RowStatus> statuses) {
  return {{call.tokens, call.batch * (call.max_depth + 1)},
          view_or_none(call.nodes, call.batch * call.max_depth),
          view_or_none(call.accepted, call.batch),
          statuses};
}

}  // namespace fairdraw::harness
