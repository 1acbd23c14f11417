// Right samplers that draw in other ways than fairdraw and the twins of mutants. The gate must be
// green on each, because a false alarm here would also be one for an engine.
#pragma once

#include <string>
#include <vector>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {

struct RightWay {
  std::string name;
  std::string why;  ///< why it is right
  Maker make;
};

/// Returns all right samplers. python/tests/right has those of Python.
const std::vector<RightWay>& right_samplers();

}  // namespace fairdraw::suites
