// What ends a run, and not the one case in which it is found.
#pragma once

#include "harness/contract/usage_error.h"

namespace fairdraw::harness {

struct EndOfRun : UsageError {
  using UsageError::UsageError;
};

}  // namespace fairdraw::harness
