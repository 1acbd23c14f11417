// Drafted ids that are no tokens, for chain.cpp and speculation.cpp.
#pragma once

#include "harness/run/checks/speculation/speculation_rows.h"

namespace fairdraw::harness {

/// Chains and requests (of the shape) with one drafted id that is no token: -1, the vocabulary's
/// size, ids that 16 bits or 31 would take for others; at each position of a draft, and at each
/// node of a tree, between two that are right. Whatever the sampler's arithmetic it fails as a
/// whole: its status, no token, nothing accepted. Without statuses the call may be refused. The
/// others get what they get without it. Not asked of samplers that take no faults (DraftContract).
void expect_stray_chains_fail(const CheckInput& input, CheckOutcome& outcome);
void expect_stray_requests_fail(const CheckInput& input, const SpeculationShape& shape,
                                CheckOutcome& outcome);

}  // namespace fairdraw::harness
