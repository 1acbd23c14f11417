// Data from files of other commands that a report shows next to the record of its run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// A wrong sampler, as `fairdraw mutants --json` describes it.
struct MutantRow {
  std::string name;
  bool killed = false;
  std::map<std::string, std::string> checks;  ///< by name of a check that judged the mutant: the
                                              ///< case that found it, or empty
};

/// An earlier run.
struct EarlierRun {
  std::string name;  ///< name of the run's folder or file
  std::string page;  ///< the run's index.html as linked from this page; empty if none
  harness::RunRecord record;
};

struct ReportExtras {
  std::vector<harness::BenchmarkRecord> benchmark;  ///< rows from `fairdraw bench --json`
  std::vector<MutantRow> mutants;                   ///< mutants from `fairdraw mutants --json`
  std::vector<harness::RunRecord> conformance;      ///< other runs, shown beside this run's
                                                    ///< samplers
  std::vector<EarlierRun> history;                  ///< oldest first
};

/// Reads the rows that to_json wrote for benchmark records. Throws std::runtime_error with the row
/// and the field that is missing or of the wrong type.
std::vector<harness::BenchmarkRecord> benchmark_from_json(const std::string& text);

/// Reads the mutants of a kill matrix and ignores its other fields. Throws std::runtime_error with
/// the mutant and the field that is missing or of the wrong type.
std::vector<MutantRow> kill_matrix_from_json(const std::string& text);

}  // namespace fairdraw::reports
