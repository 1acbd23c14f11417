// What a run shows while it goes: a bar on a terminal, a line a case in a log.
#pragma once

#include "harness/run/runner.h"

namespace fairdraw::cli {

/// To stderr where that is a terminal (one line, redrawn), else to stdout (one line a case, in the
/// order in which cases end).
harness::Progress make_progress();

}  // namespace fairdraw::cli
