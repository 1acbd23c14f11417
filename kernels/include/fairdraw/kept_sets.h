// A kept set holds the ids of the tokens that survived an output's filters; the call that draws the
// token writes it.
//
// Reinforcement learning trains on sampled tokens under the distribution that they were sampled
// from: softmax over the survivors of top_k, top_p and min_p. If a trainer's logits differ from the
// sampler's in their last bits, the trainer would find other survivors. So the sampler must report
// the set of survivors. A kept set is the set that the token was drawn from by construction,
// because the same thresholds decide both.
//
// The layout is that of vLLM's SamplingMask: the ids of all sets one after the other, and the place
// at which each output's ids begin. SampleResult::logprob_filtered is the log-probability of the
// drawn token within its kept set. log_probabilities() with the kept set as `allowed` gives the
// same bits for the same logits.
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

/// Arrays in which kept sets are written. The kept set of a greedy output has the drawn token
/// alone; an output whose status is not ok has an empty set.
struct KeptSets {
  View<std::int32_t> token_ids;  ///< [places]; ids of the sets of all outputs, in the order of the
                                 ///< outputs
  View<std::int64_t> offsets;    ///< [outputs + 1]: output i has the ids from offsets[i] on, up to
                                 ///< offsets[i + 1], exclusive, ascending
  View<std::uint8_t> overflow;   ///< [outputs], optional; 1: the set did not fit in the rest of
                                 ///< `token_ids`, and none of its ids is there. support_size then
                                 ///< has the size of the set, which a call with more room can write
};

/// Draws tokens as `sample` does, and writes the kept sets. Sets are packed in the order of
/// outputs; places after the last set are left untouched.
Error sample_with_kept_sets(const SampleRequest& request, const SampleResult& result,
                            const KeptSets& kept, const Execution& execution = {});

// Drafts (fairdraw/speculative.h) have one kept set per place of a token: [batch, max_draft + 1]
// sets for chains, [batch, max_depth + 1] for trees. The kept set of a place holds the survivors of
// the target's row at which the token was emitted, whether the token is an accepted draft, the
// replacement of a draft or a bonus token. An emitted token has the distribution of these
// survivors, whatever the draft. Places after the last token of a request have no set, and requests
// whose status is not ok have no sets.

/// Verifies chains as `accept_chain` does, and writes the kept sets: one for each of [batch,
/// max_draft + 1] places.
Error accept_chain_with_kept_sets(const AcceptChainRequest& request,
                                  const AcceptChainResult& result, const KeptSets& kept,
                                  const Execution& execution = {});
/// Alias of accept_chain_with_kept_sets, by the name that engines use.
inline Error verify_chain_with_kept_sets(const VerifyChainRequest& request,
                                         const VerifyChainResult& result, const KeptSets& kept,
                                         const Execution& execution = {}) {
  return accept_chain_with_kept_sets(request, result, kept, execution);
}

/// Verifies trees as `accept_tree` does, and writes the kept sets: one for each of [batch,
/// max_depth + 1] places.
Error accept_tree_with_kept_sets(const AcceptTreeRequest& request, const AcceptTreeResult& result,
                                 const KeptSets& kept, const Execution& execution = {});
/// Alias of accept_tree_with_kept_sets, by the name that engines use.
inline Error verify_tree_with_kept_sets(const VerifyTreeRequest& request,
                                        const VerifyTreeResult& result, const KeptSets& kept,
                                        const Execution& execution = {}) {
  return accept_tree_with_kept_sets(request, result, kept, execution);
}

/// Rows of bits, as `sample` and similar calls write them to SampleResult::mask.
struct KeptMask {
  BitRows<const std::uint32_t> mask;  ///< [rows, ceil(vocab / 32)] words; bit 1: the token survived
                                      ///< the filters
  std::int64_t vocab = 0;             ///< number of bits in a row, 0 to 2^20
  std::int32_t first_id = 0;          ///< id of a row's first column
  View<const std::int32_t> indices;   ///< [outputs], optional: output i belongs to row indices[i];
                                      ///< without it, to row i
  View<const RowStatus> statuses;     ///< [outputs], optional: an output has no set if its status
                                      ///< is not ok, and the mask of an inactive row has never been
                                      ///< written
};

/// Packs the kept sets of a call that wrote a mask. So each rank of a sharded call
/// (fairdraw/sharded.h) gets the ids of its own columns, with first_id = boundaries[shard]. The
/// kept set of an output consists of its sets of all shards, one after the other.
/// Errors: invalid_argument if a field is out of its range; the message names the field, and then
/// nothing is written.
Error kept_sets_of_mask(const KeptMask& rows, const KeptSets& kept);

}  // namespace fairdraw
