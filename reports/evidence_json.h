// Reads and writes the fields that report.json has for evidence and for counts.
#pragma once

#include "harness/run/evidence/record.h"
#include "reports/json_fields.h"

namespace fairdraw::reports {

void effect_fields(JsonObject& json, harness::Effect& effect);

/// Reads or writes the fields of evidence. Empty lists, empty texts and absent parts of the
/// evidence are left out. Points in lists are stored as arrays, not objects, because there are
/// many.
void evidence_fields(JsonObject& json, harness::Evidence& evidence);

/// The functions below read or write counts over cells, and counts that parts of a case leave to
/// `merge`.
void cell_fields(JsonObject& json, harness::CellCounts& cells);
void counted_fields(JsonObject& json, harness::CountedDraws& counted);

/// Returns the whole report.json except its cases, whose list is empty.
Json record_json(const harness::RunRecord& record);

}  // namespace fairdraw::reports
