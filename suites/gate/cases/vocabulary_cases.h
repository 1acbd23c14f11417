// Cases at the vocabularies of models, and at sizes between them.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Makes as many cases of each kind as there are models: together they have every model's
/// vocabulary once, whatever the run's seed (of the dearest kinds a few, which come to all as seeds
/// go on); and some whose size the seed draws between those. Suite smoke has three sizes of them.
std::vector<NamedCase> vocabulary_cases();

}  // namespace fairdraw::suites
