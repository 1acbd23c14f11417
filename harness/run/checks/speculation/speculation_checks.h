// Declares the comparisons of check_speculation.
#pragma once

#include "harness/run/calls/speculation_request.h"
#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Compare the answers to one call; `input` gives the sampler and the semantics. Preconditions: for
/// the second function, the draft's distribution is unknown; for the second and the third function,
/// the request has an array of seeds.
CheckOutcome compare_speculation_with_model(const CheckInput& input,
                                            const SpeculationRequest& request);
CheckOutcome compare_speculation_with_sampling(const CheckInput& input,
                                               const SpeculationRequest& request);
CheckOutcome compare_speculation_batches(const CheckInput& input,
                                         const SpeculationRequest& request);

}  // namespace fairdraw::harness
