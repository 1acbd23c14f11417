// Compares instances of a sampler that draws from its own generator; each instance of a plugin has
// its own process. Without a seed, two instances must not start with equal draws, because otherwise
// every restarted process of an engine would give its users the same tokens.
#pragma once

#include <functional>
#include <memory>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Returns whether the sampler's own generator decides which tokens are drawn, because it neither
/// takes a seed per request nor promises that equal seeds give equal tokens. The promise
/// RandomnessContract::replays declares a default seed: such a sampler gets a seed in each call,
/// and instances that agree on the default are right.
bool draws_from_own_generator(const SamplerDescription& description);

/// Runs check_streams, and compares the first draws of three instances: input.sampler, which must
/// not have drawn before, and two instances that `make_fresh` makes. The instances must not repeat
/// themselves or each other in any of the ways of stream_probes.h, at any shift. If the generator
/// starts from the time in seconds, at least two of three instances that are made at the same
/// moment are equal, even if a second ends between them. This comparison takes a fraction of the
/// case's budget; the rest is for check_streams. For samplers without their own generator, and for
/// rows whose repetition is no proof, only check_streams is run.
CheckOutcome check_streams_of_instances(
    const CheckInput& input, const std::function<std::unique_ptr<Sampler>()>& make_fresh);

}  // namespace fairdraw::harness
