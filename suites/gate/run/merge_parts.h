// Judges a run whose cases were drawn in parts (--case-part).
#pragma once

#include <vector>

#include "suites/gate/run/complete_record.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// Returns the record that one run would have made, except for seconds (their sum) and environment.
/// The counts of all parts are added and judged by the check itself. An e-value is therefore that
/// of all draws, which the product of the parts' e-values would not be, because bets on the second
/// half of the draws use the first half. If a check needs a second look that the parts have not
/// drawn, the case is left out and the record is marked as incomplete. Records made with
/// --second-look are passed together with the other records. If a sampler broke in a part, the case
/// is taken from that part.
///
/// `options` are the options of the run. The samplers are made from their descriptions in the
/// records and draw nothing. Throws harness::UsageError that names the records if they are not of
/// one run, a part is repeated or missing, or a record is incomplete.
harness::RunRecord merge_parts(const std::vector<NamedRecord>& records, PlanOptions options,
                               unsigned threads);

}  // namespace fairdraw::suites
