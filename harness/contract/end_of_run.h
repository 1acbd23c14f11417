// Exceptions that end the whole run, not only the case in which they are thrown.
#pragma once

#include "harness/contract/usage_error.h"

namespace fairdraw::harness {

struct EndOfRun : UsageError {
  using UsageError::UsageError;
};

}  // namespace fairdraw::harness
