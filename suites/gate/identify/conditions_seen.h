// What a red run asks its samplers again, so that whoever tells of it names the same first cause:
// which definitions they follow, and under which condition a mistake shows. For the second, failed
// cases are asked of a sampler whose rows with the condition are answered by a right one.
#pragma once

#include <vector>

#include "harness/run/evidence/record.h"
#include "harness/run/runner.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// Fills in the conditions of each sampler of the record that failed cases. A failed case that
/// passes once the rows with a condition are right fails in no other rows; one that still fails
/// refutes the condition, for all cases. A condition that all rows of a case have is taken where
/// cases of the same check without it pass, and none fails. `jobs` are those of the run; a few of
/// the failed ones, cheap and of different checks, are asked: some seconds. Where that takes
/// five minutes there are no conditions.
void note_conditions(const std::vector<harness::Job>& jobs, harness::RunRecord& record);

/// Fills in the definitions (seen_definitions.h) and then the conditions.
void ask_failed_samplers(const std::vector<harness::Job>& jobs, const SamplerMaker& make,
                         harness::RunRecord& record);

}  // namespace fairdraw::suites
