// The fields of evidence and of counts in a report.json.
#pragma once

#include "harness/run/evidence/record.h"
#include "reports/json_fields.h"

namespace fairdraw::reports {

void effect_fields(JsonObject& json, harness::Effect& effect);

/// Lists that are empty, texts that are empty and parts that are absent are left out. Points of
/// lists are arrays, not objects: they are many.
void evidence_fields(JsonObject& json, harness::Evidence& evidence);

/// Counts over cells, and those that parts of a case leave to `merge`.
void cell_fields(JsonObject& json, harness::CellCounts& cells);
void counted_fields(JsonObject& json, harness::CountedDraws& counted);

/// All of a report.json but its cases; their list is empty.
Json record_json(const harness::RunRecord& record);

}  // namespace fairdraw::reports
