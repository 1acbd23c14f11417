// The options of a run, read back from its record.
#pragma once

#include "harness/run/evidence/record.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// What decides the cases of the run that `record`, read from `path`, is of: semantics, draws,
/// night and captured files, which are read again. Samplers and seed are in the record itself.
/// Throws harness::UsageError naming the option that is not known, or the file.
suites::PlanOptions recorded_options(const std::string& path, const harness::RunRecord& record);

}  // namespace fairdraw::cli
