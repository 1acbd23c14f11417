// What makes several records those of one run. For complete_record.cpp, merge_parts.cpp and
// accumulate.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "suites/gate/run/complete_record.h"

namespace fairdraw::suites {

/// What all records of a run have in common, by name and in words: seed, commit, suite, version,
/// samplers, choice of cases, options, cases in all, error budget.
std::vector<std::pair<std::string, std::string>> common_facts(const harness::RunRecord& record);

/// Throws harness::UsageError naming both records and the fact that differs. Facts in `but` may.
void expect_same_run(const NamedRecord& one, const NamedRecord& other,
                     const std::set<std::string>& but = {});

/// Each text once, in the order of the records. A run's name is theirs only where all have it: one
/// without it may be of any run.
std::map<std::string, std::string> joined_environments(
    const std::vector<const NamedRecord*>& records);

}  // namespace fairdraw::suites
