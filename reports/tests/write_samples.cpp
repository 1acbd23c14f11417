// reports_write_samples: prints the sample records as one JSON object, {name: {"report": ...,
// "junit": ..., "html": ..., "markdown": ...}}, in which each report is a string. The checks that
// are written in Python read this JSON.
//
// reports_write_samples FOLDER: writes each sample report into FOLDER/NAME, and the reports of long
// runs into FOLDER/red (68 failures), FOLDER/green (2,500 cases) and FOLDER/large (100,000 cases).
// The browser test opens these reports.
//
// reports_write_samples FOLDER CASES: writes a report into FOLDER/timed, and prints the seconds,
// the bytes of index.html and the program's peak memory.
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "reports/report.h"
#include "reports/tests/evidence_samples.h"
#include "reports/tests/sample_records.h"

namespace {

using namespace fairdraw::reports;

using Sample = std::pair<const char*, fairdraw::harness::RunRecord>;

std::vector<Sample> samples() {
  // An empty run has no case, and none of the strings that a caller may leave out.
  fairdraw::harness::RunRecord empty;
  empty.tool_version = "0.1.0";
  empty.suite = "gate";
  empty.shard = "1/1";
  return {{"small", covered_record()},
          {"nasty", nasty_record()},
          {"empty", empty},
          {"evidence", evidence_record()},
          {"nasty_evidence", nasty_evidence_record()}};
}

void print_time(const std::filesystem::path& folder, std::uint64_t cases) {
  const fairdraw::harness::RunRecord record = green_record(cases);
  const auto start = std::chrono::steady_clock::now();
  write_report(folder / "timed", record);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::cout << cases << " cases: four files in " << seconds.count() << " s, index.html "
            << std::filesystem::file_size(folder / "timed" / "index.html") << " bytes, at most "
            << usage.ru_maxrss / 1024 << " MiB of memory\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    print_time(argv[1], std::strtoull(argv[2], nullptr, 10));
    return 0;
  }
  if (argc == 2) {
    const std::filesystem::path folder = argv[1];
    for (const auto& [name, record] : samples())
      write_report(folder / name, record, sample_extras());
    write_report(folder / "red", red_record(68));
    write_report(folder / "green", green_record(2500));
    write_report(folder / "large", green_record(100'000));
    return 0;
  }
  nlohmann::ordered_json json;
  for (const auto& [name, record] : samples()) {
    json[name] = {{"report", to_json(record)},
                  {"junit", to_junit_xml(record)},
                  {"html", to_html(record, sample_extras())},
                  {"markdown", to_markdown(record)}};
  }
  std::cout << json.dump() << '\n';
}
