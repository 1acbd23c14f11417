// Counts of draws as JSON: over cells, and those that parts of a case leave to `merge`. For
// json_writer.cpp and json_reader.cpp.
#pragma once

#include <vector>

#include "harness/run/evidence/record.h"
#include "reports/object_reader.h"

namespace fairdraw::reports {

Json cells_json(const std::vector<harness::CellCounts>& cells);
Json counted_json(const std::vector<harness::CountedDraws>& counted);

/// Of the objects of an array. Throw std::runtime_error naming the field.
std::vector<harness::CellCounts> cells_of(std::vector<ObjectReader> readers);
std::vector<harness::CountedDraws> counted_of(std::vector<ObjectReader> readers);

/// A 64-bit number as the decimal text that it is written as.
std::uint64_t seed_of(const std::string& decimal, const std::string& path);

}  // namespace fairdraw::reports
