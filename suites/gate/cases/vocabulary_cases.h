// Cases at the vocabularies of models, and at sizes between them.
#pragma once

#include <vector>

#include "suites/gate/cases/named_case.h"

namespace fairdraw::suites {

/// Returns one case per model for each kind, so that every run covers all models' vocabularies. The
/// most expensive kinds of cases have only a few cases, which cover all models over successive
/// seeds. All other cases have a size between models that the seed draws. Suite smoke has cases of
/// three sizes.
std::vector<NamedCase> vocabulary_cases();

}  // namespace fairdraw::suites
