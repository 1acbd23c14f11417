// Accumulated evidence of several runs of the same gate with fresh seeds (nights).
#pragma once

#include <vector>

#include "suites/gate/run/complete_record.h"

namespace fairdraw::suites {

/// Returns the record of all nights. Precondition: they are in chronological order. A case fails if
/// it failed in any night. A statistical case also fails if the evidence of all nights suffices
/// (harness/statistics/nights.h). Half of this evidence comes from the counts over cells, where
/// each night's bets use the counts of earlier nights; the other half comes from the p-values or
/// bets of the single nights.
///
/// Each night spends its stated error budget; accumulation adds ErrorLedger::kReserve once, for any
/// number of nights. With a right sampler the whole is therefore red with probability at most n
/// 10^-9 + 3 10^-10 for n nights, and at most 1.3 10^-9 for any n if night i was run with --night
/// i.
///
/// Throws harness::UsageError that names the records for shards, parts, incomplete or accumulated
/// records, equal seeds, and different cases, samplers or options.
harness::RunRecord accumulate_nights(const std::vector<NamedRecord>& nights);

}  // namespace fairdraw::suites
