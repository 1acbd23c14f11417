// Mutants of sharded vocabularies, and the right sampler that they are made of.
#pragma once

#include <vector>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {

std::vector<Mutant> sharded_mutants();
Twin sharded_twin();

}  // namespace fairdraw::suites
