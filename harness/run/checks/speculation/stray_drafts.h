// Tests draft ids that are outside of the vocabulary. The checks chain.cpp and speculation.cpp use
// this code.
#pragma once

#include "harness/run/checks/speculation/speculation_rows.h"

namespace fairdraw::harness {

/// Judge chains and requests (of the given shape) with one drafted id that is no token: -1, the
/// vocabulary size, or ids whose low 16 or 31 bits are a token. The stray id is placed at each
/// position of a draft, and at each node of a tree, between two valid requests. In any arithmetic
/// the request with the stray id must fail as a whole: it has its status, no token, and no accepted
/// draft. A sampler without statuses may refuse the call. The other requests must get the same
/// results as without the stray id. These tests are not run for samplers that take no faults
/// (DraftContract).
void expect_stray_chains_fail(const CheckInput& input, CheckOutcome& outcome);
void expect_stray_requests_fail(const CheckInput& input, const SpeculationShape& shape,
                                CheckOutcome& outcome);

}  // namespace fairdraw::harness
