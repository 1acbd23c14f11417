// Judges a run whose cases were drawn in parts (--case-part).
#pragma once

#include <vector>

#include "suites/gate/run/complete_record.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// Returns the record that one run would have made, except for seconds (which are summed) and
/// environment. The counts of all parts are added up, and the check itself judges the sum. So an
/// e-value is that of all draws. The product of the e-values of the parts would be different,
/// because bets on the second half of the draws use the first half. If a check needs a second look
/// that the parts have not drawn, the case is left out, and the record is marked as incomplete.
/// Records that were made with --second-look are passed together with the other records. If a
/// sampler broke in a part, the case is taken from that part.
///
/// `options` are the options of the run. The samplers are made from their descriptions in the
/// records, and draw nothing. Throws harness::UsageError that names the records if they are not of
/// one run, if a part is repeated or missing, or if a record is incomplete.
harness::RunRecord merge_parts(const std::vector<NamedRecord>& records, PlanOptions options,
                               unsigned threads);

}  // namespace fairdraw::suites
