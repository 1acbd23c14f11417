// A run whose cases were drawn in parts (--case-part), judged.
#pragma once

#include <vector>

#include "suites/gate/run/complete_record.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// The record that one run would have made, except for seconds (their sum) and environment: counts
/// of all parts are added up, and judged by the check itself. So an e-value is that of all draws,
/// which the product of the parts' e-values is not: bets on the second half of the draws know the
/// first. Where a check asks for a second look that the parts have not drawn, the case is left out,
/// and the record is incomplete and says so; records of --second-look are given together with the
/// others. Where a sampler broke in a part the case is that part's.
///
/// `options`: those of the run; the samplers are made from what the records say of them, and draw
/// nothing. Throws harness::UsageError naming the records: not of one run, a part twice or missing,
/// incomplete.
harness::RunRecord merge_parts(const std::vector<NamedRecord>& records, PlanOptions options,
                               unsigned threads);

}  // namespace fairdraw::suites
