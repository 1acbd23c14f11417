// What check_speculation compares.
#pragma once

#include "harness/run/calls/speculation_request.h"
#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Comparisons of one call. `input` says sampler and semantics. The second of calls whose
/// draft's distribution is unknown; it and the third of arrays of seeds.
CheckOutcome compare_speculation_with_model(const CheckInput& input,
                                            const SpeculationRequest& request);
CheckOutcome compare_speculation_with_sampling(const CheckInput& input,
                                               const SpeculationRequest& request);
CheckOutcome compare_speculation_batches(const CheckInput& input,
                                         const SpeculationRequest& request);

}  // namespace fairdraw::harness
