// The checks of speculative verification in serving (checks.h has the others).
#pragma once

#include "harness/run/calls/speculation_request.h"
#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Requests with drafts, chains and trees, packed and padded, under every distribution of drafts:
/// tokens, counts and statuses equal to the integer model's, and where the draft's distribution is
/// unknown to those that the sampler itself draws without drafts (exact samplers); greedy requests
/// emit the largest logits (all samplers); the same in any batch, again, whatever the padding
/// holds, and with nothing but tokens asked for (per-request seeds). With logits processing a row's
/// history goes on with the drafts before it.
CheckOutcome check_speculation(const CheckInput& input);

/// Its comparisons, of one call. `input` says sampler and semantics. The second of calls whose
/// draft's distribution is unknown; it and the third of arrays of seeds.
CheckOutcome compare_speculation_with_model(const CheckInput& input,
                                            const SpeculationRequest& request);
CheckOutcome compare_speculation_with_sampling(const CheckInput& input,
                                               const SpeculationRequest& request);
CheckOutcome compare_speculation_batches(const CheckInput& input,
                                         const SpeculationRequest& request);

/// Whatever the drafts are, what is emitted has the target's distribution under the filters of both
/// sides: first tokens, what becomes of each drafted token at two positions, pairs, bonus,
/// neighbours.
CheckOutcome check_speculation_distribution(const CheckInput& input);

/// The same of trees whose drafts have a known distribution, siblings with and without replacement:
/// first tokens, what becomes of each child, what comes where none stands, tokens behind,
/// neighbours.
CheckOutcome check_tree_distribution(const CheckInput& input);

}  // namespace fairdraw::harness
