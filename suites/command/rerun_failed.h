// verify --rerun-failed repeats the failed cases of another run.
#pragma once

#include <string>

#include "harness/run/evidence/record.h"
#include "suites/command/run_options.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// Sets `planned` to those cases of `record` that failed or could not be run; `record` was read
/// from `path`. The seed and the share of the error budget come from the record, so that the same
/// draws are judged by the same levels. If the command line's options `given` name samplers or a
/// seed, they replace those of the record. A plugin must be named in `given`, because a file must
/// not choose the code that is loaded. Throws harness::UsageError if no case failed, or no case on
/// these samplers failed.
void plan_rerun(const std::string& path, const harness::RunRecord& record, const RunOptions& given,
                suites::PlanOptions& planned);

/// Throws harness::UsageError if the run of `record` (read from `path`) had an option that changes
/// cases, and this run does not have it. `options` are those of this run's own record.
void expect_same_options(const std::string& path, const harness::RunRecord& record,
                         const std::string& options);

}  // namespace fairdraw::cli
