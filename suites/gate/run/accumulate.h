// Evidence is accumulated over several runs of the same gate with fresh seeds (nightly runs).
#pragma once

#include <vector>

#include "suites/gate/run/complete_record.h"

namespace fairdraw::suites {

/// Returns one record of all nightly runs together. Precondition: the records are in chronological
/// order. A case fails if it failed in at least one nightly run. A statistical case also fails if
/// the evidence of all nightly runs together suffices (harness/statistics/nights.h). Half of this
/// evidence comes from the counts over cells, where the bets of each run use the counts of earlier
/// runs. The other half of the evidence comes from the p-values or bets of the single runs.
///
/// Each nightly run spends its stated error budget; accumulation adds ErrorLedger::kReserve once,
/// whatever the number of runs. So with a correct sampler, the accumulated record fails with a
/// probability of at most n 10^-9 + 3 10^-10 for n nightly runs. The probability is at most 1.3
/// 10^-9 for any n if run i was made with --night i.
///
/// Throws harness::UsageError that names the records if there are shards, parts, incomplete or
/// accumulated records, equal seeds, or different cases, samplers or options.
harness::RunRecord accumulate_nights(const std::vector<NamedRecord>& nights);

}  // namespace fairdraw::suites
