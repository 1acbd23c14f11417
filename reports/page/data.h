// What page.js draws index.html from: parts of the page's data block; for page/*.cpp alone.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "reports/extras.h"
#include "reports/json_fields.h"

namespace fairdraw::reports::page {

/// Members of an object: "cases", an array a line, and lists of what many cases share. With many
/// cases, the measures are those of `detailed` ones alone: places in the record.
std::string cases_data(const harness::RunRecord& record, const std::set<std::size_t>& detailed);

/// How earlier runs and this one ended, oldest first, and what changed from one to the next.
Json history_data(const harness::RunRecord& record, const ReportExtras& extras);

}  // namespace fairdraw::reports::page
