#include "reports/extras.h"

#include "reports/json_fields.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

// Other fields of these files are ignored, because they belong to other commands and may change.
constexpr Format kAny{.open = true};

void benchmark_fields(JsonObject& json, harness::BenchmarkRecord& row) {
  constexpr Whole kCount{0, std::numeric_limits<std::int64_t>::max()};
  json("backend", row.backend, named);
  json("operation", row.operation, named);
  json("batch", row.batch, kCount);
  json("vocab", row.vocab, kCount);
  json("dtype", row.dtype);
  json("logits", row.logits);
  json("microseconds", row.microseconds, kFiniteNotNegative);
  json("floor", row.floor);
  json("floor_microseconds", row.floor_microseconds, kNotNegative);
  json("ratio", row.ratio, kNotNegative);
  json.optional("machine", row.machine);
}

/// The evidence with which a check detected a mutant.
struct Kill {
  std::string by;
};

void read(const Value& value, Kill& to) { JsonObject{value}("by", to.by); }

}  // namespace

std::string to_json(const std::vector<harness::BenchmarkRecord>& rows) {
  Json json = Json::array();
  for (const auto& row : rows) json.push_back(object_json(row, benchmark_fields));
  return dump(json, 2) + "\n";
}

std::vector<harness::BenchmarkRecord> benchmark_from_json(const std::string& text) {
  // The rows become the only field of an object, so that paths in error messages begin with the
  // field's name.
  Json json = Json::object();
  json["benchmark"] = parse_json(text, kAny);
  const Value root(json, kAny);
  std::vector<harness::BenchmarkRecord> rows;
  JsonObject(root).list("benchmark", rows, benchmark_fields);
  return rows;
}

std::vector<MutantRow> kill_matrix_from_json(const std::string& text) {
  const Json json = parse_json(text, kAny);
  const Value root(json, kAny);
  std::vector<MutantRow> rows;
  JsonObject(root).list("mutants", rows, [](JsonObject& of, MutantRow& row) {
    of("name", row.name);
    of("killed", row.killed);
    // A null value means that the check judged the mutant and found nothing.
    std::map<std::string, std::optional<Kill>> checks;
    read_by(of.at("checks"), checks);
    for (const auto& [check, kill] : checks) row.checks[check] = kill ? kill->by : "";
  });
  return rows;
}

}  // namespace fairdraw::reports
