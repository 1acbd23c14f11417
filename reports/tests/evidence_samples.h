// Records for what small_record() has not: every kind of evidence, a green run, very many cases.
#pragma once

#include "reports/extras.h"
#include "reports/tests/sample_records.h"

namespace fairdraw::reports {

/// A red run whose cases carry every kind of evidence: a lane that is never drawn, a temperature
/// that is not applied, a mask that keeps a token too many, streams that share their bits; and a
/// passed case that keeps its pictures. Numbers are made up, and the same on every machine.
harness::RunRecord evidence_record();

/// A broken sampler's run: `failures` failed cases of five causes, among as many that passed, with
/// the evidence of evidence_record().
harness::RunRecord red_record(std::uint64_t failures);

/// A run in which all is well, `cases` long, with a p value in every tenth case. `cases` > 0.
harness::RunRecord green_record(std::uint64_t cases);

/// A kill matrix with a survivor, rows of a benchmark, a second run, and two that were earlier.
ReportExtras sample_extras();

/// evidence_record() with nasty_text() in every string and no number finite.
harness::RunRecord nasty_evidence_record();

}  // namespace fairdraw::reports
