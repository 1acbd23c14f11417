// Functions that compare records of one run, for complete_record.cpp, merge_parts.cpp and
// accumulate.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "suites/gate/run/complete_record.h"

namespace fairdraw::suites {

/// Returns the facts that all records of a run have in common, as names and texts: seed, commit,
/// suite, version, samplers, choice of cases, options, number of cases, error budget.
std::vector<std::pair<std::string, std::string>> common_facts(const harness::RunRecord& record);

/// Throws harness::UsageError that names two records, and the fact in which they differ. Facts
/// whose names are in `but` may differ.
void expect_same_run(const NamedRecord& one, const NamedRecord& other,
                     const std::set<std::string>& but = {});

/// Joins the environments of records: each text occurs once, in the order of the records. The name
/// of the run is kept only if all records have it, because a record without a name may be of any
/// run.
std::map<std::string, std::string> joined_environments(
    const std::vector<const NamedRecord*>& records);

}  // namespace fairdraw::suites
