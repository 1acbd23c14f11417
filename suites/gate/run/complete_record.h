// What a record has besides its cases: the test of all of them together, the ledger, and the parts
// of a run joined to the whole.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// The fact of a record's environment that names the run: what --run-id says.
inline constexpr const char* kRunId = "run_id";

/// Adds to a record of cases what is said of all of them: the global case of each sampler (of a
/// whole run: a shard or a choice of cases has another distribution), the sum of the draws, and the
/// error budget, booked once; and keeps the evidence within bounds. Needs
/// error_budget.statistical_cases. Throws std::logic_error where the cases spent more than there
/// is.
void complete_record(harness::RunRecord& record);

/// A record, and what to call it in messages.
struct NamedRecord {
  std::string name;
  harness::RunRecord record;
};

/// The record of the whole run, from those of its shards in any order: the cases in the order of
/// the case table, the budget spent once, the global cases that the shards could not have. Except
/// for seconds (their sum) and environment it is the record that one run without shards makes.
/// Throws harness::UsageError naming the records: different seeds, commits, suites, versions,
/// samplers or options; a shard twice, or missing; cases that do not belong together.
harness::RunRecord merge_shards(const std::vector<NamedRecord>& records);

}  // namespace fairdraw::suites
