// Whole calls of verify_chain and verify_tree on host vectors, and what the model says of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/speculative.h"
#include "reference/speculation/speculation_model.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {

/// One call. Vectors that are empty are not given.
struct SpeculationCall {
  std::int64_t batch = 0, max_draft = 0, max_depth = 0;
  OwnedCall target;  ///< rows, allowed, rules; parameters, seeds, offsets, active: of requests
  OwnedCall draft;   ///< rows and rules; filters: of requests
  DraftLaw draft_law = DraftLaw::none;
  bool trees = false;  ///< rows of the draft are parallel to the target's, not at the places
  SiblingSampling siblings = SiblingSampling::with_replacement;
  std::vector<std::int64_t> row_begins;
  std::vector<std::int32_t> draft_lengths, draft_tokens, parents;
  std::vector<std::vector<float>> target_rows, draft_rows;  ///< as in memory
};

/// Adversarial requests of 0 to 5 drafts over rows of `vocab` values: packed and padded,
/// every distribution of drafts near the target's and far from it, filters of their own in and out
/// of range, masks, bad rows, drafted tokens that cannot be, lengths that do not fit; parents of
/// trees.
SpeculationCall random_speculation_call(std::uint64_t number, std::int64_t vocab,
                                        bool trees = false);

/// One node with many children, of known distribution by the number, with replacement where that is
/// even; the draft has much of what the target has little of.
SpeculationCall wide_speculation_call(std::uint64_t number, std::int64_t children,
                                      std::int64_t vocab);

/// Requests whose drafts have few tokens, of subnormal probabilities, in a large vocabulary: there
/// bounds of a total that are a vocabulary apart leave tests of drafts open.
SpeculationCall open_speculation_call(std::uint64_t number, std::int64_t vocab, bool trees);

/// Chains whose draft's rows are the target's with two values exchanged, one of which is the
/// drafted token's, and in every second row a value one unit in the last place larger: of all other
/// tokens P Zq and Q Zp are equal, or 2^-24 or less apart.
SpeculationCall exchanged_speculation_call(std::uint64_t number, std::int64_t vocab);

/// Chains of 70 drafts, 49 of 50 of which are accepted.
SpeculationCall long_speculation_call(std::uint64_t number, std::int64_t vocab);

struct SpeculationOutputs {
  std::vector<std::int32_t> tokens, nodes, accepted;
  std::vector<RowStatus> statuses;

  /// Pre-filled with a sentinel pattern. `width`: drafted tokens of a path at most.
  SpeculationOutputs(const SpeculationCall& call, std::int64_t width, bool optional_results = true);
  bool operator==(const SpeculationOutputs&) const = default;
};

/// What a call has to write, by the model of the reference.
SpeculationOutputs expected_chain_outputs(const SpeculationCall& call);
SpeculationOutputs expected_tree_outputs(const SpeculationCall& call);

/// Where two results of the first request that differs are apart; empty where they are equal.
std::string difference(const SpeculationOutputs& expected, const SpeculationOutputs& got);

template <class Arrays>
LawFilters filters_in(const OwnedCall& call, Arrays& arrays) {
  return {call.temperature.in(arrays), call.top_k.in(arrays), call.top_p.in(arrays),
          call.min_p.in(arrays),       call.tie_rule,         call.filter_order};
}

template <class Arrays>
TargetRows target_in(const SpeculationCall& call, Arrays& arrays) {
  const SampleRequest rows = request_in(call.target, arrays);
  TargetRows target;
  target.logits = rows.logits;
  target.filters = filters_in(call.target, arrays);
  target.allowed = rows.allowed;
  target.processing = rows.processing;
  target.batch = call.batch;
  target.row_begins = {arrays.in(call.row_begins),
                       static_cast<std::int64_t>(call.row_begins.size())};
  target.active = rows.active;
  target.seed = rows.seed;
  target.offset = rows.offset;
  return target;
}

template <class Arrays>
VerifyChainRequest chain_in(const SpeculationCall& call, Arrays& arrays) {
  const auto view = [&arrays](const auto& values) {
    return View(arrays.in(values), static_cast<std::int64_t>(values.size()));
  };
  VerifyChainRequest request;
  request.target = target_in(call, arrays);
  request.max_draft = call.max_draft;
  request.draft_tokens = view(call.draft_tokens);
  request.draft_lengths = view(call.draft_lengths);
  request.draft_law = call.draft_law;
  if (call.draft_law != DraftLaw::none) request.draft = request_in(call.draft, arrays).logits;
  request.draft_filters = filters_in(call.draft, arrays);
  return request;
}

template <class Arrays>
VerifyTreeRequest tree_in(const SpeculationCall& call, Arrays& arrays) {
  const VerifyChainRequest chain = chain_in(call, arrays);
  VerifyTreeRequest request;
  request.target = chain.target;
  request.max_draft = call.max_draft;
  request.max_depth = call.max_depth;
  request.draft_tokens = chain.draft_tokens;
  request.draft_lengths = chain.draft_lengths;
  request.parents = {arrays.in(call.parents), static_cast<std::int64_t>(call.parents.size())};
  request.draft_law = call.draft_law;
  request.siblings = call.siblings;
  request.draft = chain.draft;
  request.draft_filters = chain.draft_filters;
  return request;
}

template <class Result, class Arrays>
Result speculation_result_in(SpeculationOutputs& outputs, Arrays& arrays) {
  const auto view = [&arrays](auto& values) {
    return View(arrays.out(values), static_cast<std::int64_t>(values.size()));
  };
  Result result;
  result.tokens = view(outputs.tokens);
  result.accepted = view(outputs.accepted);
  result.statuses = view(outputs.statuses);
  if constexpr (requires { result.nodes; }) result.nodes = view(outputs.nodes);
  return result;
}

}  // namespace fairdraw::suites
