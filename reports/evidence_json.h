// Reads and writes the fields of evidence and of counts in a report.json.
#pragma once

#include "harness/run/evidence/record.h"
#include "reports/json_fields.h"

namespace fairdraw::reports {

void effect_fields(JsonObject& json, harness::Effect& effect);

/// Reads or writes the fields of evidence. Empty lists, empty texts and absent parts of evidence
/// are left out. Points of lists are arrays, not objects, because there are many.
void evidence_fields(JsonObject& json, harness::Evidence& evidence);

/// Read or write counts over cells, and counts that parts of a case leave to `merge`.
void cell_fields(JsonObject& json, harness::CellCounts& cells);
void counted_fields(JsonObject& json, harness::CountedDraws& counted);

/// Returns all of a report.json except its cases, whose list is empty.
Json record_json(const harness::RunRecord& record);

}  // namespace fairdraw::reports
