// The simplifications that shrinking tries.
#pragma once

#include <functional>
#include <vector>

#include "suites/gate/fuzz/fuzz_case.h"

namespace fairdraw::suites::fuzz {

/// Makes one part of a case simpler; false where it is that simple already (then nothing changed).
using Step = std::function<bool(FuzzCase&)>;

/// The steps for a case of this size, the boldest first.
std::vector<Step> steps_for(const FuzzCase& fuzz_case);

}  // namespace fairdraw::suites::fuzz
