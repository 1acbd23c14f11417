// The options of a run are read back from its record.
#pragma once

#include "harness/run/evidence/record.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// Returns the options that determine the cases of the run of `record`, which was read from `path`:
/// semantics, draws, night, and captured files, which are read again from disk. Samplers and seed
/// are fields of the record itself. Throws harness::UsageError that names an unknown option, or a
/// file that cannot be read.
suites::PlanOptions recorded_options(const std::string& path, const harness::RunRecord& record);

}  // namespace fairdraw::cli
