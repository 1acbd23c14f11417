// The cases that failed in another run, again: verify --rerun-failed.
#pragma once

#include <string>

#include "harness/run/evidence/record.h"
#include "suites/command/run_options.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// Sets `planned` to the cases that failed in `record`, read from `path`, or could not be run
/// there: under its seed and share of the error budget, so that the same draws are judged alike.
/// Samplers and seed that `given` names replace the record's. A plugin has to be named there: a
/// file does not choose what is loaded. Throws harness::UsageError: no case failed, or none on
/// these samplers.
void plan_rerun(const std::string& path, const harness::RunRecord& record, const RunOptions& given,
                suites::PlanOptions& planned);

/// Throws harness::UsageError where `record`, read from `path`, was made with an option that
/// changes what a case is, and the run has it not. `options` are those of the run's own record.
void expect_same_options(const std::string& path, const harness::RunRecord& record,
                         const std::string& options);

}  // namespace fairdraw::cli
