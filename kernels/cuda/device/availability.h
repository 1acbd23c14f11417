// What the current device can run.
#pragma once

#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// No error, and `path` made definite where the device leaves no choice (best is block where there
/// are no clusters); or why the call cannot run here.
Error check_path(Path& path);

}  // namespace fairdraw::cuda
