// Correct samplers that draw in other ways than fairdraw and the bases of mutants. The gate must
// pass each of them, because a false alarm for one of these samplers would also be a false alarm
// for an engine.
#pragma once

#include <string>
#include <vector>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {

struct RightWay {
  std::string name;
  std::string why;  ///< reason why the sampler is correct
  Maker make;
};

/// Returns all correct samplers that are written in C++. python/tests/right has those in Python.
const std::vector<RightWay>& right_samplers();

}  // namespace fairdraw::suites
