// Cases at the vocabularies of models, and at sizes between them.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Returns one case per model for each kind, so that every run covers the vocabularies of all
/// models. The most expensive kinds have only a few cases, which cover all models over several
/// seeds. All other cases have a size between models, which the seed chooses. Suite smoke has cases
/// of three sizes.
std::vector<NamedCase> vocabulary_cases();

}  // namespace fairdraw::suites
