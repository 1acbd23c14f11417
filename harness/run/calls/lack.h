// What a sampler does not declare and a request needs.
#pragma once

#include "harness/run/calls/request.h"
#include "harness/run/evidence/abilities.h"

namespace fairdraw::harness {

/// The ability that the request needs and the sampler does not declare; empty where there is none.
/// missing_ability() is its reason.
Lack lack_for(const SamplerDescription& sampler, const Request& request);

}  // namespace fairdraw::harness
