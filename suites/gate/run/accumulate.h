// Evidence of several runs with fresh seeds: nights of the same gate.
#pragma once

#include <vector>

#include "suites/gate/run/complete_record.h"

namespace fairdraw::suites {

/// The record of all nights, in the order in which they were. A case that failed in one of them has
/// failed; a statistical case fails too where the evidence of all nights suffices
/// (harness/statistics/nights.h): of its counts over cells, each night's bets knowing the counts of
/// the nights before, and of its p-values or bets, night by night, in equal parts.
///
/// The nights spend what each of them states; accumulation adds ErrorLedger::kReserve to that, for
/// any number of nights. So the whole may turn red with at most n 10^-9 + 3 10^-10 for n nights
/// under a right sampler, and with 1.3 10^-9 for any n where night i was run with --night i.
///
/// Throws harness::UsageError naming the records: shards, parts, incomplete or accumulated ones,
/// two of the same seed, other cases, samplers or options.
harness::RunRecord accumulate_nights(const std::vector<NamedRecord>& nights);

}  // namespace fairdraw::suites
