// An exception that ends the whole run, not only the case that throws it.
#pragma once

#include "harness/contract/usage_error.h"

namespace fairdraw::harness {

struct EndOfRun : UsageError {
  using UsageError::UsageError;
};

}  // namespace fairdraw::harness
