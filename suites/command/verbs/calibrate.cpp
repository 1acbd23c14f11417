// calibrate: tests the harness's statistics on a correct sampler.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/run/parallel.h"
#include "reports/json_fields.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/output_file.h"
#include "suites/command/seed.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/calibration/calibration.h"

namespace fairdraw::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CalibrateOptions {
  suites::CalibrationOptions run;
  std::optional<std::string> seed, seed_from;
  std::string json;
  int jobs = 0;
};

Json row_json(const suites::CalibrationRow& row) {
  Json json = {{"statistic", row.statistic}, {"validity", to_string(row.validity)},
               {"runs", row.runs},           {"smallest_p", row.smallest_p},
               {"distance", row.distance},   {"p_value", row.p_value},
               {"reds", row.reds},           {"passed", row.passed}};
  if (row.e_at_least_100) {
    json["e_at_least_100"] = *row.e_at_least_100;
    json["e_p_value"] = *row.e_p_value;
  }
  return json;
}

int calibrate(CalibrateOptions options) {
  const OutputFile file("--json", options.json);
  const SeedChoice seed = choose_seed(options.seed, options.seed_from);
  options.run.seed = seed.value;
  options.run.threads = harness::threads_of(static_cast<unsigned>(options.jobs));
  const std::vector<suites::CalibrationRow> rows = suites::calibrate(options.run);
  print("seed {} ({})\n{:<18} {:>6} {:>9} {:>11} {:>9} {:>9} {:>8} {:>5}\n", seed.value,
        seed.source, "statistic", "valid", "runs", "smallest p", "distance", "p of it", "E >= 100",
        "reds");
  for (const suites::CalibrationRow& row : rows) {
    print("{:<18} {:>6} {:>9} {:>11.3g} {:>9.5f} {:>9.2g} {:>8} {:>5}{}\n", row.statistic,
          to_string(row.validity), row.runs, row.smallest_p, row.distance, row.p_value,
          row.e_at_least_100 ? std::to_string(*row.e_at_least_100) : "-", row.reds,
          row.passed ? "" : "  FAILED");
  }
  const bool passed =
      std::all_of(rows.begin(), rows.end(), [](const auto& row) { return row.passed; });
  print("{} null runs: {}\n", rows.size() * options.run.runs,
        passed ? "every p-value is uniform or larger, none is red"
               : "a statistic does not hold its level");
  if (file.wanted()) {
    Json json = {{"seed", std::to_string(seed.value)},
                 {"seed_source", seed.source},
                 {"false_alarm_rate", suites::kCalibrationFalseAlarmRate},
                 {"rows", Json::array()}};
    for (const suites::CalibrationRow& row : rows) json["rows"].push_back(row_json(row));
    file.write(reports::dump(json, 2) + "\n");
  }
  return passed ? 0 : 1;
}

}  // namespace

Verb add_calibrate(CLI::App& app) {
  const auto options = std::make_shared<CalibrateOptions>();
  add_option(app, "--runs", options->run.runs, "N", "Null runs of each statistic",
             {.min = 100, .max = 10'000'000});
  add_option(app, "--seed", options->seed, "N",
             "Seed, 64 bits (default: made from the commit, as `verify` does)");
  add_option(app, "--seed-from", options->seed_from, "TEXT",
             "Make the seed from a text, such as a date");
  add_option(app, "--jobs", options->jobs, "N", "Threads (default: one per core)",
             {.min = 1, .max = 1024});
  add_json(app, options->json, "Write the rows");
  return [options] { return calibrate(*options); };
}

}  // namespace fairdraw::cli
