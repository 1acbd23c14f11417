// Repetition of the failed cases of another run: verify --rerun-failed.
#pragma once

#include <string>

#include "harness/run/evidence/record.h"
#include "suites/command/run_options.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// Sets `planned` to the cases of `record`, read from `path`, that failed or could not be run. Seed
/// and share of the error budget are taken from the record, so that the same draws are judged
/// alike. Samplers and seed in `given`, the command line's options, replace the record's. A plugin
/// must be named in `given`, because a file must not choose the code that is loaded. Throws
/// harness::UsageError if no case failed, or no case on these samplers.
void plan_rerun(const std::string& path, const harness::RunRecord& record, const RunOptions& given,
                suites::PlanOptions& planned);

/// Throws harness::UsageError if `record`, read from `path`, was made with an option that changes
/// cases and that the run lacks. `options` are the options of the run's own record.
void expect_same_options(const std::string& path, const harness::RunRecord& record,
                         const std::string& options);

}  // namespace fairdraw::cli
