// Whole calls of verify_chain and verify_tree on host vectors, and the model's results for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/speculative.h"
#include "reference/speculation/speculation_model.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {

/// One call. Empty vectors are not passed.
struct SpeculationCall {
  std::int64_t batch = 0, max_draft = 0, max_depth = 0;
  OwnedCall target;  ///< rows, allowed, rules; per request: parameters, seeds, offsets, active
  OwnedCall draft;   ///< rows and rules; filters per request
  DraftLaw draft_law = DraftLaw::none;
  bool trees = false;  ///< whether draft rows are parallel to the target's, not to positions
  SiblingSampling siblings = SiblingSampling::with_replacement;
  std::vector<std::int64_t> row_begins;
  std::vector<std::int32_t> draft_lengths, draft_tokens, parents;
  std::vector<std::vector<float>> target_rows, draft_rows;  ///< the values in memory
};

/// Returns adversarial requests of 0 to 5 drafts over rows of `vocab` values: packed and padded,
/// every distribution of drafts near the target's and far from it, valid and invalid filters,
/// masks, invalid rows, impossible drafted tokens, lengths that do not fit; parents of trees.
SpeculationCall random_speculation_call(std::uint64_t number, std::int64_t vocab,
                                        bool trees = false);

/// Returns one node with many children. The number selects the known distribution, and even numbers
/// draw with replacement. The draft favours tokens that have little weight in the target.
SpeculationCall wide_speculation_call(std::uint64_t number, std::int64_t children,
                                      std::int64_t vocab);

/// Returns requests whose drafts have few tokens, of subnormal probabilities, in a large
/// vocabulary: bounds of a total that are a vocabulary apart then leave tests of drafts open.
SpeculationCall open_speculation_call(std::uint64_t number, std::int64_t vocab, bool trees);

/// Returns chains whose draft rows are the target's with two values exchanged, one of them the
/// drafted token's, and in every second row one value larger by one unit in the last place. For all
/// other tokens P Zq and Q Zp are equal, or at most 2^-24 apart.
SpeculationCall exchanged_speculation_call(std::uint64_t number, std::int64_t vocab);

/// Returns chains of 70 drafts, of which 49 of 50 are accepted.
SpeculationCall long_speculation_call(std::uint64_t number, std::int64_t vocab);

struct SpeculationOutputs {
  std::vector<std::int32_t> tokens, nodes, accepted;
  std::vector<RowStatus> statuses;

  /// Pre-fills the results with a sentinel pattern. `width`: maximum number of drafted tokens of a
  /// path.
  SpeculationOutputs(const SpeculationCall& call, std::int64_t width, bool optional_results = true);
  bool operator==(const SpeculationOutputs&) const = default;
};

/// Returns the expected results of a call, by the reference's model.
SpeculationOutputs expected_chain_outputs(const SpeculationCall& call);
SpeculationOutputs expected_tree_outputs(const SpeculationCall& call);

/// Returns the differences of the first request whose results differ; empty if all are equal.
std::string difference(const SpeculationOutputs& expected, const SpeculationOutputs& got);

/// Returns the filters of a law, which has one tie rule and one filter order per call.
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
