// Mutants of sharded vocabularies, and the right sampler that they are made of; none in a build
// without serving (no_sharded.cpp).
#pragma once

#include <vector>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {

std::vector<Mutant> sharded_mutants();
std::vector<Twin> sharded_twins();

}  // namespace fairdraw::suites
