// What a report may show next to the record of its run: files of other verbs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// A wrong sampler, as `fairdraw mutants --json` tells of it.
struct MutantRow {
  std::string name;
  bool killed = false;
  std::map<std::string, std::string> checks;  ///< that judged it: the case that found it, or empty
};

/// A run before this one.
struct EarlierRun {
  std::string name;  ///< of its folder, or its file
  std::string page;  ///< its index.html, as this page's links see it; empty: it has none
  harness::RunRecord record;
};

struct ReportExtras {
  std::vector<harness::BenchmarkRecord> benchmark;  ///< of `fairdraw bench --json`
  std::vector<MutantRow> mutants;                   ///< of `fairdraw mutants --json`
  std::vector<harness::RunRecord> conformance;      ///< other runs, next to this one's samplers
  std::vector<EarlierRun> history;                  ///< oldest first
};

/// The rows that to_json wrote of benchmark records. Throws std::runtime_error naming the row and
/// the field that is missing or of the wrong type.
std::vector<harness::BenchmarkRecord> benchmark_from_json(const std::string& text);

/// The mutants of a kill matrix; its other fields are not read. Throws std::runtime_error
/// naming the mutant and the field that is missing or of the wrong type.
std::vector<MutantRow> kill_matrix_from_json(const std::string& text);

}  // namespace fairdraw::reports
