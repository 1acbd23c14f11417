// Completion of records: the joint test of all cases, the error ledger, and the merging of shards.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// Key of a record's environment for the name of the run, the value of --run-id.
inline constexpr const char* kRunId = "run_id";

/// Completes a record of cases: adds the global case of each sampler (only in a whole run, because
/// a shard or a choice of cases has another distribution), the sum of the draws, and the error
/// budget, booked once; and bounds the size of the evidence. Precondition:
/// error_budget.statistical_cases is set. Throws std::logic_error if the cases spent more than the
/// budget.
void complete_record(harness::RunRecord& record);

/// A record, and its name in messages.
struct NamedRecord {
  std::string name;
  harness::RunRecord record;
};

/// Returns the record of the whole run from the records of its shards, in any order: the cases in
/// the order of the case table, the budget spent once, and the global cases, which shards lack.
/// Except for seconds (their sum) and environment the result equals the record of one run without
/// shards. Throws harness::UsageError that names the records for different seeds, commits, suites,
/// versions, samplers or options, for repeated or missing shards, and for cases that do not belong
/// together.
harness::RunRecord merge_shards(const std::vector<NamedRecord>& records);

}  // namespace fairdraw::suites
