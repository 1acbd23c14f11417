// Abilities that a request needs and a sampler does not declare.
#pragma once

#include "harness/run/calls/request.h"
#include "harness/run/evidence/abilities.h"

namespace fairdraw::harness {

/// Returns the ability that the request needs and the sampler does not declare; empty if there is
/// none. missing_ability() returns its reason.
Lack lack_for(const SamplerDescription& sampler, const Request& request);

}  // namespace fairdraw::harness
