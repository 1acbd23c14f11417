#include <fmt/format.h>

#include "harness/run/evidence/causes.h"
#include "reports/counts_json.h"
#include "reports/coverage.h"
#include "reports/evidence_json.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

Json case_json(const harness::CaseRecord& record) {
  Json measures = Json::object();
  for (const auto& [name, value] : record.measures) measures[name] = number_json(value);
  Json json = Json::object();
  json["id"] = record.id;
  json["suite"] = record.suite;
  json["check"] = record.check;
  json["sampler"] = record.sampler;
  json["semantics"] = record.semantics;
  json["filter"] = record.filter;
  if (!record.features.empty()) json["features"] = record.features;
  json["verdict"] = to_string(record.verdict);
  json["draws"] = record.draws;
  json["rows"] = record.rows;
  json["vocab"] = record.vocab;
  json["statistic"] = number_json(record.statistic);
  json["dof"] = number_json(record.dof);
  json["p_value"] = number_json(record.p_value);
  json["total_variation"] = number_json(record.total_variation);
  json["min_discrepancy"] = number_json(record.min_discrepancy);
  json["seconds"] = number_json(record.seconds);
  json["message"] = record.message;
  json["watch"] = record.watch;
  if (!record.lacks.empty()) json["lacks"] = record.lacks;
  json["replay"] = record.replay;
  json["measures"] = std::move(measures);
  if (!record.cells.empty()) json["cells"] = cells_json(record.cells);
  if (!record.counted.empty()) json["counted"] = counted_json(record.counted);
  if (has_something(record.evidence)) json["evidence"] = evidence_json(record.evidence);
  return json;
}

Json seen_json(const harness::SeenDefinitions& seen) {
  Json differences = Json::array();
  for (const harness::SeenDefinition& one : seen.differences) {
    differences.push_back(
        {{"meaning", one.meaning}, {"declared", one.declared}, {"values", one.values}});
  }
  return {{"closest", seen.closest}, {"differences", std::move(differences)}};
}

/// For programs: a reader of this format makes them again from the cases.
void add_causes(const harness::RunRecord& record, Json& json) {
  for (const harness::Cause& cause : harness::ranked_causes(record)) {
    Json ids = Json::array();
    for (const std::size_t place : cause.cases) ids.push_back(record.cases[place].id);
    json["causes"].push_back({{"name", cause.name},
                              {"sentence", cause.text.sentence},
                              {"change", cause.text.change},
                              {"reason", cause.reason},
                              {"cases", std::move(ids)}});
  }
}

/// Bytes that are not UTF-8 become U+FFFD. Indented by `indent`, or in one line.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// An array with an element a line: lines can be compared, and thousands of cases stay small.
std::string lines_of(const std::vector<harness::CaseRecord>& cases) {
  std::string text = "[";
  for (const harness::CaseRecord& one : cases) {
    text += text.size() > 1 ? ",\n    " : "\n    ";
    text += dump(case_json(one), -1);
  }
  return text + (cases.empty() ? "]" : "\n  ]");
}

/// An object of the fields, indented, except for `key`, whose value is `lines`.
std::string with_lines(const Json& json, const std::string& key, const std::string& lines) {
  std::string text = "{";
  for (const auto& [name, value] : json.items()) {
    text += text.size() > 1 ? ",\n  " : "\n  ";
    text += dump(Json(name), -1) + ": ";
    if (name == key) {
      text += lines;
      continue;
    }
    for (const char c : dump(value, 2)) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  return text + "\n}\n";
}

}  // namespace

Json record_json(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  Json json = Json::object();
  json["schema_version"] = fmt::format("{}.{}", kSchemaMajor, kSchemaMinor);
  json["tool"] = {{"name", "fairdraw"}, {"version", record.tool_version}};
  json["environment"] = record.environment;
  json["seed"] = {{"value", std::to_string(record.seed)}, {"source", record.seed_source}};
  json["suite"] = record.suite;
  json["commit"] = record.commit;
  json["shard"] = record.shard;
  if (!record.case_part.empty()) json["case_part"] = record.case_part;
  json["selection"] = record.selection;
  json["options"] = record.options;
  json["incomplete"] = record.incomplete;
  if (!record.required.empty()) json["required"] = record.required;
  if (record.max_skipped) json["max_skipped"] = number_json(record.max_skipped);
  json["error_budget"] = {{"false_alarm_rate", number_json(record.error_budget.false_alarm_rate)},
                          {"spent", number_json(record.error_budget.spent)},
                          {"statistical_cases", record.error_budget.statistical_cases}};
  for (const harness::Night& night : record.nights) {
    json["nights"].push_back({{"seed", std::to_string(night.seed)},
                              {"seed_source", night.seed_source},
                              {"commit", night.commit},
                              {"false_alarm_rate", number_json(night.false_alarm_rate)}});
  }
  json["samplers"] = Json::array();
  for (const harness::SamplerRecord& sampler : record.samplers) {
    Json entry = {
        {"name", sampler.name}, {"version", sampler.version}, {"semantics", sampler.semantics}};
    if (!sampler.notes.empty()) entry["notes"] = sampler.notes;
    if (sampler.abilities > 0) entry["abilities"] = sampler.abilities;
    if (sampler.promises > 0) entry["promises"] = sampler.promises;
    if (sampler.seen) entry["seen"] = seen_json(*sampler.seen);
    json["samplers"].push_back(std::move(entry));
  }
  add_causes(record, json);
  Json& mistakes = json["small_mistakes"] = Json::array();
  for (const harness::SmallMistake& one : record.small_mistakes) {
    mistakes.push_back({{"mistake", one.mistake},
                        {"id", one.id},
                        {"discrepancy", number_json(one.discrepancy)},
                        {"draws", one.draws},
                        {"needed", one.needed}});
  }
  json["cases"] = nullptr;  // in lines of their own
  if (record.planned > 0) json["places"] = {{"of", record.planned}, {"cases", record.places}};
  json["draws"] = record.draws;
  json["seconds"] = number_json(record.seconds);
  json["summary"] = {{"passed", counts.passed},
                     {"failed", counts.failed},
                     {"underpowered", counts.underpowered},
                     {"skipped", counts.skipped},
                     {"error", counts.error}};
  if (Json coverage = coverage_json(record); !coverage.is_null()) {
    json["coverage"] = std::move(coverage);
  }
  return json;
}

std::string to_json(const harness::RunRecord& record) {
  return with_lines(record_json(record), "cases", lines_of(record.cases));
}

std::string to_json(const std::vector<harness::BenchmarkRecord>& rows) {
  Json json = Json::array();
  for (const harness::BenchmarkRecord& row : rows) {
    Json entry = {{"backend", row.backend},
                  {"operation", row.operation},
                  {"batch", row.batch},
                  {"vocab", row.vocab},
                  {"dtype", row.dtype},
                  {"logits", row.logits},
                  {"microseconds", number_json(row.microseconds)},
                  {"floor", row.floor},
                  {"floor_microseconds", number_json(row.floor_microseconds)},
                  {"ratio", number_json(row.ratio)}};
    if (!row.machine.empty()) entry["machine"] = row.machine;
    json.push_back(std::move(entry));
  }
  return dump(json, 2) + "\n";
}

}  // namespace fairdraw::reports
