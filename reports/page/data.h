// The data from which page.js draws index.html. Used by page/*.cpp only.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "reports/extras.h"
#include "reports/json_fields.h"

namespace fairdraw::reports::page {

/// Returns members of an object: "cases" with an array per line, and lists of values that many
/// cases share. With many cases, only those in `detailed` (indices in the record) have measures.
std::string cases_data(const harness::RunRecord& record, const std::set<std::size_t>& detailed);

/// Returns how earlier runs and this one ended, oldest first, and the changes from each to the
/// next.
Json history_data(const harness::RunRecord& record, const ReportExtras& extras);

}  // namespace fairdraw::reports::page
