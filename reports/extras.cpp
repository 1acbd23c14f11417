#include "reports/extras.h"

#include <fmt/format.h>

#include "reports/object_reader.h"

namespace fairdraw::reports {
namespace {

// Nothing else of these files is read: they belong to other verbs, and may grow.
constexpr Format kAny{0, true};

}  // namespace

std::vector<harness::BenchmarkRecord> benchmark_from_json(const std::string& text) {
  const Json json = parse_json(text);
  if (!json.is_array()) fail_at("benchmark", "is not an array of rows");
  std::vector<harness::BenchmarkRecord> rows;
  for (const Json& one : json) {
    ObjectReader reader(one, fmt::format("benchmark[{}]", rows.size()), kAny);
    harness::BenchmarkRecord row;
    row.backend = reader.name("backend");
    row.operation = reader.name("operation");
    row.batch = static_cast<std::int64_t>(reader.count("batch"));
    row.vocab = static_cast<std::int64_t>(reader.count("vocab"));
    row.dtype = reader.text("dtype");
    row.logits = reader.text("logits");
    row.microseconds = reader.finite_number("microseconds", kNotNegative);
    row.floor = reader.text("floor");
    row.floor_microseconds = reader.number("floor_microseconds", kNotNegative);
    row.ratio = reader.number("ratio", kNotNegative);
    row.machine = reader.optional_text("machine");
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<MutantRow> kill_matrix_from_json(const std::string& text) {
  const Json json = parse_json(text);
  std::vector<MutantRow> rows;
  for (ObjectReader& mutant : ObjectReader(json, "", kAny).objects("mutants")) {
    MutantRow row;
    row.name = mutant.text("name");
    row.killed = mutant.boolean("killed");
    ObjectReader checks = mutant.object("checks");
    for (const std::string& check : checks.keys()) {
      // null: the check judged the mutant and found nothing.
      const bool found = !checks.at(check).is_null();
      row.checks[check] = found ? checks.object(check).text("by") : "";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace fairdraw::reports
