// Instances of a sampler that draws from a generator of its own, each in a process of its own where
// it is a plugin: without a seed they must not start alike. Else every process of an engine that is
// started again gives its users the same tokens.
#pragma once

#include <functional>
#include <memory>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// True where no seed decides what is drawn, and so the sampler's own generator does: it neither
/// takes a seed a request nor promises that equal seeds give equal tokens. That promise
/// (RandomnessContract::replays) declares a default: such a sampler is given a seed in each call,
/// and instances that agree on it are right.
bool draws_from_own_generator(const SamplerDescription& description);

/// check_streams, and the first draws of three instances: input.sampler, which has drawn nothing
/// yet, and two that `make_fresh` makes. They must not repeat themselves or each other in any of
/// the ways of stream_probes.h, at any shift. Three, because of three instances of one moment two
/// are equal where the generator starts from the time in seconds, also where a second ends among
/// them. Spends a fraction of the case's budget; the rest is for check_streams. Samplers that draw
/// from no generator of their own, and rows whose repetition is no proof, get check_streams alone.
CheckOutcome check_streams_of_instances(
    const CheckInput& input, const std::function<std::unique_ptr<Sampler>()>& make_fresh);

}  // namespace fairdraw::harness
