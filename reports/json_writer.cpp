#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/report.h"

namespace fairdraw::reports {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN and no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

Json case_json(const harness::CaseRecord& record) {
  Json measures = Json::object();
  for (const auto& [name, value] : record.measures) measures[name] = number(value);
  Json json = Json::object();
  json["id"] = record.id;
  json["suite"] = record.suite;
  json["check"] = record.check;
  json["sampler"] = record.sampler;
  json["semantics"] = record.semantics;
  json["verdict"] = to_string(record.verdict);
  json["draws"] = record.draws;
  json["rows"] = record.rows;
  json["vocab"] = record.vocab;
  json["statistic"] = number(record.statistic);
  json["dof"] = number(record.dof);
  json["p_value"] = number(record.p_value);
  json["total_variation"] = number(record.total_variation);
  json["min_discrepancy"] = number(record.min_discrepancy);
  json["seconds"] = number(record.seconds);
  json["message"] = record.message;
  json["watch"] = record.watch;
  json["replay"] = record.replay;
  json["measures"] = std::move(measures);
  return json;
}

/// Indented; bytes that are not UTF-8 become U+FFFD.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_json(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  Json json = Json::object();
  json["schema_version"] = 2;
  json["tool"] = {{"name", "fairdraw"}, {"version", record.tool_version}};
  json["environment"] = record.environment;
  json["seed"] = {{"value", std::to_string(record.seed)}, {"source", record.seed_source}};
  json["suite"] = record.suite;
  json["shard"] = record.shard;
  json["error_budget"] = {{"false_alarm_rate", number(record.error_budget.false_alarm_rate)},
                          {"spent", number(record.error_budget.spent)}};
  json["samplers"] = Json::array();
  for (const harness::SamplerRecord& sampler : record.samplers) {
    json["samplers"].push_back(
        {{"name", sampler.name}, {"version", sampler.version}, {"semantics", sampler.semantics}});
  }
  json["cases"] = Json::array();
  for (const harness::CaseRecord& one : record.cases) json["cases"].push_back(case_json(one));
  json["draws"] = record.draws;
  json["seconds"] = number(record.seconds);
  json["summary"] = {{"passed", counts.passed},
                     {"failed", counts.failed},
                     {"underpowered", counts.underpowered},
                     {"skipped", counts.skipped},
                     {"error", counts.error}};
  return dump(json);
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
                  {"microseconds", number(row.microseconds)},
                  {"floor", row.floor},
                  {"floor_microseconds", number(row.floor_microseconds)},
                  {"ratio", number(row.ratio)}};
    if (!row.machine.empty()) entry["machine"] = row.machine;
    json.push_back(std::move(entry));
  }
  return dump(json);
}

}  // namespace fairdraw::reports
