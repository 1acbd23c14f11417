// Records with parts that small_record() lacks: every kind of evidence, a passed run, very many
// cases.
#pragma once

#include "reports/extras.h"
#include "reports/tests/sample_records.h"

namespace fairdraw::reports {

/// Returns a failed run whose cases have every kind of evidence: a lane that is never drawn, a
/// temperature that is not applied, a mask that keeps one token too many, and streams that share
/// their bits. The run also has a passed case with pictures. The numbers of the record are
/// invented, and the same on every machine.
harness::RunRecord evidence_record();

/// Returns the run of a faulty sampler: `failures` failed cases with five causes and as many passed
/// cases, with the evidence of evidence_record().
harness::RunRecord red_record(std::uint64_t failures);

/// Returns a passed run of `cases` > 0 cases, in which every tenth case has a p value.
harness::RunRecord green_record(std::uint64_t cases);

/// Returns a kill matrix with a mutant that was not detected, rows of a benchmark, a second run,
/// and two earlier runs.
ReportExtras sample_extras();

/// Returns evidence_record() with nasty_text() in every string, and without finite numbers.
harness::RunRecord nasty_evidence_record();

}  // namespace fairdraw::reports
