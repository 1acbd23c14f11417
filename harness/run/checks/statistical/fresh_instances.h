// Instances of a sampler that draws from its own generator; each instance of a plugin has its own
// process. Without a seed the instances must not start alike, because otherwise every restarted
// process of an engine gives its users the same tokens.
#pragma once

#include <functional>
#include <memory>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Returns whether the sampler's own generator decides what is drawn, because it neither takes a
/// seed per request nor promises that equal seeds give equal tokens. The promise
/// RandomnessContract::replays declares a default: such a sampler gets a seed in each call, and
/// instances that agree on it are right.
bool draws_from_own_generator(const SamplerDescription& description);

/// Runs check_streams, and compares the first draws of three instances: input.sampler, which must
/// not have drawn before, and two that `make_fresh` makes. The instances must not repeat themselves
/// or each other in any of the ways of stream_probes.h, at any shift. If the generator starts from
/// the time in seconds, two of three instances made at one moment are equal even if a second ends
/// between them. This comparison spends a fraction of the case's budget; the rest is for
/// check_streams. Samplers without an own generator, and rows whose repetition is no proof, run
/// check_streams only.
CheckOutcome check_streams_of_instances(
    const CheckInput& input, const std::function<std::unique_ptr<Sampler>()>& make_fresh);

}  // namespace fairdraw::harness
