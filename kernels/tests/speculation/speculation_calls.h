// Whole calls of accept_chain and accept_tree on host vectors, and the results of the reference's
// model for these calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/speculative.h"
#include "reference/speculation/speculation_model.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {

/// One call. Empty vectors are not passed to a call.
struct SpeculationCall {
  std::int64_t batch = 0, max_draft = 0, max_depth = 0;
  OwnedCall target;  ///< the target's rows, allowed tokens and rules; parameters, seeds, offsets
                     ///< and active flags per request
  OwnedCall draft;   ///< the draft's rows and rules; filters per request
  DraftLaw draft_law = DraftLaw::none;
  harness::CallParameter<AcceptRule> accept_rule{AcceptRule::token_wise, {}};
  bool trees = false;  ///< true: draft rows are parallel to the target's rows, not to positions
  SiblingSampling siblings = SiblingSampling::with_replacement;
  std::vector<std::int64_t> row_begins;
  std::vector<std::int32_t> draft_lengths, draft_tokens, parents;
  /// the values that are in memory, as floats
  std::vector<std::vector<float>> target_rows, draft_rows;
};

/// Returns adversarial requests of 0 to 5 drafted tokens over rows of `vocab` values. The requests
/// are packed or padded, with draft distributions near the target's and far from it, valid and
/// invalid filters, masks, invalid rows, impossible drafted tokens, and lengths that do not fit;
/// trees also have parents.
SpeculationCall random_speculation_call(std::uint64_t number, std::int64_t vocab,
                                        bool trees = false);

/// Returns a call in which one node has many children. The number selects the kind of known
/// distribution, and even numbers draw siblings with replacement. The draft favours tokens of
/// little weight in the target.
SpeculationCall wide_speculation_call(std::uint64_t number, std::int64_t children,
                                      std::int64_t vocab);

/// Returns requests whose drafts have few tokens, of subnormal probabilities, in a large
/// vocabulary. The bounds of a total are then a vocabulary apart, and do not decide the test of a
/// draft.
SpeculationCall open_speculation_call(std::uint64_t number, std::int64_t vocab, bool trees);

/// Returns chains whose draft rows are the target's rows with two values exchanged, one of which is
/// the drafted token's. In every second row, one value is also larger by one unit in the last
/// place. For all other tokens, P Zq and Q Zp are equal, or at most 2^-24 apart.
SpeculationCall exchanged_speculation_call(std::uint64_t number, std::int64_t vocab);

/// Sets the rules of a call of chains by its number: all requests are verified by block, or some of
/// them.
void set_block_rules(SpeculationCall& call, std::uint64_t number);

/// Returns chains of 70 drafted tokens, of which 49 in 50 are accepted.
SpeculationCall long_speculation_call(std::uint64_t number, std::int64_t vocab);

struct SpeculationOutputs {
  std::vector<std::int32_t> tokens, nodes, accepted;
  std::vector<RowStatus> statuses;

  /// Fills the results with a pattern that no call writes. `width`: largest number of drafted
  /// tokens on a path.
  SpeculationOutputs(const SpeculationCall& call, std::int64_t width, bool optional_results = true);
  bool operator==(const SpeculationOutputs&) const = default;
};

/// Returns the results that the reference's model gives for a call.
SpeculationOutputs expected_chain_outputs(const SpeculationCall& call);
SpeculationOutputs expected_tree_outputs(const SpeculationCall& call);

/// Returns the differences of the first request with different results; empty if all results are
/// equal.
std::string difference(const SpeculationOutputs& expected, const SpeculationOutputs& got);

/// Returns the filters of a distribution, which has one tie rule and one filter order per call.
template <class Arrays>
LawFilters filters_in(const OwnedCall& call, Arrays& arrays) {
  return {call.temperature.in(arrays), call.top_k.in(arrays), call.top_p.in(arrays),
          call.min_p.in(arrays),       call.tie_rule.scalar,  call.filter_order.scalar};
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
AcceptChainRequest chain_in(const SpeculationCall& call, Arrays& arrays) {
  const auto view = [&arrays](const auto& values) {
    return View(arrays.in(values), static_cast<std::int64_t>(values.size()));
  };
  AcceptChainRequest request;
  request.target = target_in(call, arrays);
  request.max_draft = call.max_draft;
  request.draft_tokens = view(call.draft_tokens);
  request.draft_lengths = view(call.draft_lengths);
  request.draft_law = call.draft_law;
  if (call.draft_law != DraftLaw::none) request.draft = request_in(call.draft, arrays).logits;
  request.draft_filters = filters_in(call.draft, arrays);
  request.accept_rule = call.accept_rule.in(arrays);
  return request;
}

template <class Arrays>
AcceptTreeRequest tree_in(const SpeculationCall& call, Arrays& arrays) {
  const AcceptChainRequest chain = chain_in(call, arrays);
  AcceptTreeRequest request;
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
