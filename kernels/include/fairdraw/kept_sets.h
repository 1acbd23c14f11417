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
#pragma once

#include <cstdint>

#include "fairdraw/sample.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Where kept sets go. A greedy output keeps its token alone; one whose status is not ok, none.
struct KeptSets {
  View<std::int32_t> token_ids;  ///< room for the ids of all outputs together
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

}  // namespace fairdraw
