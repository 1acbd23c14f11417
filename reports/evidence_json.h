// Evidence in a report.json: the part of json_writer.cpp and json_reader.cpp that is about it, and
// what else of it the page holds.
#pragma once

#include "harness/run/evidence/record.h"
#include "reports/object_reader.h"

namespace fairdraw::reports {

/// JSON has no NaN and no infinity: null.
Json number_json(double value);
Json number_json(const std::optional<double>& value);

Json effect_json(const harness::Effect& effect);

/// Lists that are empty, texts that are empty and parts that are absent are left out. Points of
/// lists are arrays, not objects, in the order of the fields of their struct: they are many.
Json evidence_json(const harness::Evidence& evidence);

/// All of a report.json but its cases, which are null.
Json record_json(const harness::RunRecord& record);

/// Throws std::runtime_error naming the field.
harness::Evidence evidence_of(ObjectReader reader);

}  // namespace fairdraw::reports
