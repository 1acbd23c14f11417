// Right samplers that draw in other ways than fairdraw and the twins of mutants do. The gate must
// be green on each: what it blames one of them for it would blame an engine for.
#pragma once

#include <string>
#include <vector>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {

struct RightWay {
  std::string name;
  std::string why;  ///< it is right
  Maker make;
};

/// All of them, by names of their own. python/tests/right has those of Python.
const std::vector<RightWay>& right_samplers();

}  // namespace fairdraw::suites
