// Data from files of other commands that a report shows beside the record of its run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// A wrong sampler, in the form in which `fairdraw mutants --json` describes it.
struct MutantRow {
  std::string name;
  bool killed = false;
  std::map<std::string, std::string> checks;  ///< for each check that judged the mutant, by name:
                                              ///< the case that detected the mutant, or empty
};

/// An earlier run.
struct EarlierRun {
  std::string name;  ///< name of the folder or file of the run
  std::string page;  ///< link from this page to the run's index.html; empty if there is none
  harness::RunRecord record;
};

struct ReportExtras {
  std::vector<harness::BenchmarkRecord> benchmark;  ///< rows from `fairdraw bench --json`
  std::vector<MutantRow> mutants;                   ///< mutants from `fairdraw mutants --json`
  std::vector<harness::RunRecord> conformance;      ///< records of other runs, which are shown
                                                    ///< beside this run's samplers
  std::vector<EarlierRun> history;                  ///< oldest first
};

/// Reads benchmark records that to_json wrote. Throws std::runtime_error that names the row and the
/// field that is missing or has the wrong type.
std::vector<harness::BenchmarkRecord> benchmark_from_json(const std::string& text);

/// Reads the mutants of a kill matrix, and ignores its other fields. Throws std::runtime_error that
/// names the mutant and the field that is missing or has the wrong type.
std::vector<MutantRow> kill_matrix_from_json(const std::string& text);

}  // namespace fairdraw::reports
