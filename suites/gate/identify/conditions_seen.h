// Tests that a failed run makes of its samplers afterwards: the definitions that they follow, and
// the condition under which a mistake shows. The answers are recorded, so that every report of the
// run names the same first cause. To test a condition, failed cases are judged again with some rows
// answered by a correct sampler (case_rows.h).
#pragma once

#include <vector>

#include "harness/run/evidence/record.h"
#include "harness/run/runner.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// Fills in the conditions of each sampler in the record that failed cases. A condition is refuted
/// if the sampler is wrong in rows without it. The rows of failed and of passed cases of a check
/// are pooled, in classes of rows with equal conditions. A condition that all wrong classes have is
/// named if chance explains that in less than one of twenty runs in which no condition matters;
/// this rate is divided among all conditions. Two conditions are named only if each of them matters
/// among rows with the other. A condition on the number of rows is named if rows are wrong in large
/// calls that are right in small ones, and wrong in these large calls alone. A condition on the
/// vocabulary size is named if failed cases pass at smaller sizes, all of them at the same sizes.
/// `jobs` are those of the run; a few cheap failed ones of different checks are repeated, which
/// takes some seconds. If `seconds` do not suffice for a sampler, the cases that were repeated
/// until then decide.
void note_conditions(const std::vector<harness::Job>& jobs, double seconds,
                     harness::RunRecord& record);

/// Fills in the definitions (seen_definitions.h), then the conditions. The search for conditions
/// takes at most as long as the run took, so that a slow sampler keeps no run waiting.
void ask_failed_samplers(const std::vector<harness::Job>& jobs, const SamplerMaker& make,
                         harness::RunRecord& record);

}  // namespace fairdraw::suites
