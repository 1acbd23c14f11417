// Draft ids that are outside of the vocabulary. Used by chain.cpp and speculation.cpp.
#pragma once

#include "harness/run/checks/speculation/speculation_rows.h"

namespace fairdraw::harness {

/// Judge chains and requests (of the shape) with one drafted id that is no token: -1, the
/// vocabulary's size, or ids whose low 16 or 31 bits are a token. The stray id is placed at each
/// position of a draft, and at each node of a tree, between two valid requests. In any arithmetic
/// the request with the stray id fails as a whole: its status, no token, nothing accepted. A
/// sampler without statuses may refuse the call. The other requests must get the same results as
/// without the stray id. Not run for samplers that take no faults (DraftContract).
void expect_stray_chains_fail(const CheckInput& input, CheckOutcome& outcome);
void expect_stray_requests_fail(const CheckInput& input, const SpeculationShape& shape,
                                CheckOutcome& outcome);

}  // namespace fairdraw::harness
