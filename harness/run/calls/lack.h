// Finds abilities that a request needs and a sampler does not declare.
#pragma once

#include "harness/run/calls/request.h"
#include "harness/run/evidence/abilities.h"

namespace fairdraw::harness {

/// Returns an ability that the request needs and the sampler does not declare, or an empty one if
/// there is none. The reason is the text of missing_ability().
Lack lack_for(const SamplerDescription& sampler, const Request& request);

}  // namespace fairdraw::harness
