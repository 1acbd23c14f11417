// Tests that a failed run makes of its samplers afterwards: the definitions that they follow, and
// the condition under which a mistake shows. The answers are recorded, so that every report of the
// run names the same first cause. To test a condition, failed cases are judged again, and a correct
// sampler answers the rows that meet the condition.
#pragma once

#include <vector>

#include "harness/run/evidence/record.h"
#include "harness/run/runner.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// Fills in the conditions of each sampler in the record that failed cases. If a failed case passes
/// once rows with a condition are answered correctly, it fails in no other rows; if it still fails,
/// the condition is refuted for all cases. A condition that all rows of a case have is accepted if
/// cases of the same check without the condition pass and none fails. `jobs` are those of the run;
/// a few cheap failed ones of different checks are repeated, which takes some seconds. A condition
/// on the vocabulary size needs cases of smaller sizes; those of suite smoke that the run left out
/// are judged for it. If `seconds` do not suffice for a sampler, the search ends without
/// conditions.
void note_conditions(const std::vector<harness::Job>& jobs, double seconds,
                     harness::RunRecord& record);

/// Fills in the definitions (seen_definitions.h), then the conditions. The search for conditions
/// takes at most as long as the run took, so that a slow sampler keeps no run waiting.
void ask_failed_samplers(const std::vector<harness::Job>& jobs, const SamplerMaker& make,
                         harness::RunRecord& record);

}  // namespace fairdraw::suites
