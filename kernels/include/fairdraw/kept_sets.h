// Kept sets: the ids that survived the filters, for each output, from the call that draws.
//
// Reinforcement learning trains on what was sampled, under the distribution that it was sampled
// from: softmax over the survivors of top_k, top_p and min_p. A trainer whose logits differ in
// their last bits would find other survivors, so the sampler says which ones they were. Here they
// are the set that the token was drawn from, by construction: the same thresholds decide both.
//
// The layout is that of vLLM's SamplingMask: ids one after the other, and where each output's
// begin. SampleResult::logprob_filtered is the drawn token's log-probability under the set, and
// log_probabilities() over the set as `allowed` gives the same bits for the same logits.
//
// Errors: Calls return the codes and the statuses of the calls that they extend (fairdraw/sample.h,
// fairdraw/speculative.h), and invalid_argument if an array of `kept` has the wrong length; then
// they write nothing.
//
// Definition: vLLM's SamplingMask for the layout, docs/semantics.md for the filters.
#pragma once

#include <cstdint>

#include "fairdraw/sample.h"
#include "fairdraw/speculative.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Destination of kept sets. A greedy output keeps its token alone; one whose status is not ok,
/// none.
struct KeptSets {
  View<std::int32_t> token_ids;  ///< [places]; room for the ids of all outputs together
  View<std::int64_t> offsets;    ///< [outputs + 1]: output i has the ids from offsets[i] on, up to
                                 ///< offsets[i + 1], exclusive, ascending
  View<std::uint8_t> overflow;   ///< [outputs], optional; 1: the set did not fit in what was left
                                 ///< of `token_ids`, and none of it is there. support_size has its
                                 ///< size; a call with more room has it
};

/// As `sample`, with the kept sets. Sets are packed in the order of outputs; a place behind the
/// last of them is left untouched.
Error sample_with_kept_sets(const SampleRequest& request, const SampleResult& result,
                            const KeptSets& kept, const Execution& execution = {});

// Drafts (fairdraw/speculative.h) have a set for each place of a token, [batch, max_draft + 1], or
// [batch, max_depth + 1] for trees. The set holds the survivors of the target's row at which the
// token was emitted, for accepted drafts, replaced drafts and bonus tokens. Emitted tokens have the
// distribution of these survivors, for every draft. Places after the last token of a request have
// no set, and requests whose status is not ok have no sets.

/// As `verify_chain`, with the kept sets: one for each of [batch, max_draft + 1] places.
Error verify_chain_with_kept_sets(const VerifyChainRequest& request,
                                  const VerifyChainResult& result, const KeptSets& kept,
                                  const Execution& execution = {});

/// As `verify_tree`, with the kept sets: one for each of [batch, max_depth + 1] places.
Error verify_tree_with_kept_sets(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                                 const KeptSets& kept, const Execution& execution = {});

/// Rows of bits, as `sample` and its relatives write them to SampleResult::mask.
struct KeptMask {
  BitRows<const std::uint32_t> mask;  ///< [rows, ceil(vocab / 32)] words: bit 1: the token survived
  std::int64_t vocab = 0;             ///< bits of a row, 0 to 2^20
  std::int32_t first_id = 0;          ///< of a row's first column
  View<const std::int32_t> indices;   ///< optional: output i is of row indices[i], else of row i
  View<const RowStatus> statuses;     ///< optional, [outputs]: there is no set where it is not ok;
                                      ///< the mask of a row that is padding has not been written
};

/// Kept sets of a call that wrote a mask. So each rank of a sharded call (fairdraw/sharded.h) has
/// the ids of its own columns, with first_id = boundaries[shard]: an output's sets of all shards,
/// one after the other, are its set.
/// Errors: invalid_argument if a field is out of its range, by name; then nothing is written.
Error kept_sets_of_mask(const KeptMask& rows, const KeptSets& kept);

}  // namespace fairdraw
