// Calls of chain_speculative_sampling on host vectors, which tests run on two backends.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/cuda_speculative.h"
#include "tests/operations/operation_calls.h"

namespace fairdraw::suites {

/// A batch of chains: rows of the target and of the draft, each with its own dtype and stride.
struct ChainCall {
  std::int64_t batch = 0, num_draft_tokens = 0;
  OwnedCall draft, target;  ///< rows of draft and target, and the target's seed and offset, one per
                            ///< request or scalar
  std::vector<std::int32_t> draft_tokens;
};

struct ChainOutputs {
  std::vector<std::int32_t> tokens, accepted, emitted;
  std::vector<RowStatus> statuses;

  explicit ChainOutputs(const ChainCall& call, bool optional_results = true);
};

/// Returns chains of 0 to 5 tokens, with draft rows that equal the target, are near it, or are
/// unrelated.
ChainCall random_chain_call(std::uint64_t number, std::int64_t vocab);

/// Returns chains over few tokens of subnormal probabilities in a large vocabulary. The bounds of a
/// total are then a vocabulary apart, and do not decide the test of a draft.
ChainCall open_chain_call(std::uint64_t number, std::int64_t vocab);

template <class Arrays, class AnyExecution>
Error run_chain(const ChainCall& call, ChainOutputs& outputs, Arrays& arrays,
                const AnyExecution& execution) {
  const auto view = [](auto* data, const auto& values) {
    return View(data, static_cast<std::int64_t>(values.size()));
  };
  ChainSpeculativeRequest request;
  if (call.draft.rows > 0) request.draft_probs = request_in(call.draft, arrays).logits;
  const SampleRequest target = request_in(call.target, arrays);
  request.target_probs = target.logits;
  request.draft_tokens = view(arrays.in(call.draft_tokens), call.draft_tokens);
  request.batch = call.batch;
  request.num_draft_tokens = call.num_draft_tokens;
  request.seed = target.seed;
  request.offset = target.offset;
  ChainSpeculativeResult result;
  result.tokens = view(arrays.out(outputs.tokens), outputs.tokens);
  result.accepted = view(arrays.out(outputs.accepted), outputs.accepted);
  result.emitted = view(arrays.out(outputs.emitted), outputs.emitted);
  result.statuses = view(arrays.out(outputs.statuses), outputs.statuses);
  arrays.ready();
  return chain_speculative_sampling(request, result, execution);
}

}  // namespace fairdraw::suites
