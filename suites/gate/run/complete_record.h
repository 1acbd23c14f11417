// Completes records: adds the joint test of all cases and the error ledger, and merges shards.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// Key in a record's environment for the name of the run, which is the value of --run-id.
inline constexpr const char* kRunId = "run_id";

/// Completes a record of cases. The function adds the global case of each sampler (only in a whole
/// run, because a shard or a choice of cases has another distribution), the sum of the draws, and
/// the error budget, which is booked once. The function also bounds the size of the evidence.
/// Precondition: error_budget.statistical_cases is set. Throws std::logic_error if the cases have
/// spent more than the budget.
void complete_record(harness::RunRecord& record);

/// A record, and the name that messages use for it.
struct NamedRecord {
  std::string name;
  harness::RunRecord record;
};

/// Returns the record of the whole run from the records of its shards, in any order. The cases are
/// in the order of the case table, the budget is spent once, and the global cases, which shards
/// lack, are added. Except for seconds (which are summed) and environment, the result equals the
/// record of one run without shards. Throws harness::UsageError that names the records if seeds,
/// commits, suites, versions, samplers or options differ, if a shard is repeated or missing, or if
/// cases do not belong together.
harness::RunRecord merge_shards(const std::vector<NamedRecord>& records);

}  // namespace fairdraw::suites
