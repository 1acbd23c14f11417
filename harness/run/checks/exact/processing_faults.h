// Tests bad values of logits processing, one at a time. For processing.cpp.
#pragma once

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Puts every bad value (ids that are no tokens, penalties outside of their ranges, logits that
/// overflow) into a row of `good`, one after the other. The row must fail (under fairdraw's own
/// profile, with the status of the bad value), and no other row may change. A sampler without
/// statuses may refuse the call. Precondition: the profile promises that rows with invalid
/// parameters fail.
void expect_bad_processing_fails(const CheckInput& input, const Request& good,
                                 CheckOutcome& outcome);

}  // namespace fairdraw::harness
