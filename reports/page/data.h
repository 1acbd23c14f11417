// Functions that give the data from which page.js draws index.html. Only the sources of the folder
// page/ use these functions.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "reports/extras.h"
#include "reports/json_fields.h"

namespace fairdraw::reports::page {

/// Returns members of a JSON object: "cases", with one array per line, and the lists of values that
/// many cases share. If there are many cases, only the cases in `detailed` (indices in the record)
/// have measures.
std::string cases_data(const harness::RunRecord& record, const std::set<std::size_t>& detailed);

/// Returns the endings of earlier runs and of this run, oldest first, and the changes from each run
/// to the next.
Json history_data(const harness::RunRecord& record, const ReportExtras& extras);

}  // namespace fairdraw::reports::page
