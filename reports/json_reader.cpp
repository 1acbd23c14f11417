#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "reports/counts_json.h"
#include "reports/coverage.h"
#include "reports/evidence_json.h"
#include "reports/object_reader.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

using harness::Verdict;

constexpr int kOldestMajor = 2;
constexpr double kWholePercent = 100;

const std::vector<std::string> kSuites = {"smoke", "gate", "nightly"};

Verdict verdict_of(ObjectReader& reader) {
  constexpr std::array kAll = {Verdict::passed, Verdict::failed, Verdict::underpowered,
                               Verdict::skipped, Verdict::error};
  std::vector<std::string> names;
  for (const Verdict verdict : kAll) names.emplace_back(to_string(verdict));
  const std::string name = reader.choice("verdict", names);
  return kAll.at(
      static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
}

/// "I/N" with 1 <= I <= N, both equal to their own spelling.
bool is_part(const std::string& text) {
  std::uint64_t part = 0, parts = 0;
  const char* const end = text.data() + text.size();
  const auto [slash, wrong] = std::from_chars(text.data(), end, part);
  if (wrong == std::errc() && slash != end) std::from_chars(slash + 1, end, parts);
  return part >= 1 && part <= parts && text == fmt::format("{}/{}", part, parts);
}

std::string shard_of(ObjectReader& reader) {
  const std::string text = reader.text("shard");
  if (!is_part(text)) {
    fail_at(reader.path("shard"), "is " + shown(Json(text)) + "; expected I/N with 1 <= I <= N");
  }
  return text;
}

/// "I/N", or "I/N again".
std::string part_of(ObjectReader& reader) {
  constexpr std::string_view kAgain = " again";
  const std::string text = reader.text("case_part");
  std::string part = text;
  if (part.ends_with(kAgain)) part.resize(part.size() - kAgain.size());
  if (!is_part(part)) {
    fail_at(reader.path("case_part"),
            "is " + shown(Json(text)) + "; expected I/N with 1 <= I <= N, or 'I/N again'");
  }
  return text;
}

harness::CaseRecord case_of(ObjectReader reader) {
  harness::CaseRecord record;
  record.id = reader.name("id");
  record.suite = reader.choice("suite", kSuites);
  record.check = reader.name("check");
  record.sampler = reader.name("sampler");
  record.semantics = reader.text("semantics");
  if (reader.format().major >= 3) record.filter = reader.text("filter");
  record.verdict = verdict_of(reader);
  record.draws = reader.count("draws");
  record.rows = reader.count("rows");
  record.vocab = reader.count("vocab");
  record.statistic = reader.optional_number("statistic");
  record.dof = reader.optional_number("dof", kNotNegative);
  record.p_value = reader.optional_number("p_value", kProbability);
  record.total_variation = reader.optional_number("total_variation", kProbability);
  record.min_discrepancy = reader.optional_number("min_discrepancy", kNotNegative);
  record.seconds = reader.number("seconds", kNotNegative);
  record.message = reader.text("message");
  record.watch = reader.text("watch");
  if (reader.has("features")) record.features = reader.names("features");
  if (reader.has("lacks")) record.lacks = reader.names("lacks");
  record.replay = reader.text("replay");
  ObjectReader measures = reader.object("measures");
  for (const std::string& name : measures.keys()) record.measures[name] = measures.number(name);
  if (reader.has("cells")) record.cells = cells_of(reader.objects("cells"));
  if (reader.has("counted")) record.counted = counted_of(reader.objects("counted"));
  if (reader.has("evidence")) record.evidence = evidence_of(reader.object("evidence"));
  reader.expect_no_other_field();
  return record;
}

void expect_summary(ObjectReader reader, const harness::Summary& counted) {
  const std::array<std::pair<const char*, std::uint64_t>, 5> fields = {
      {{"passed", counted.passed},
       {"failed", counted.failed},
       {"underpowered", counted.underpowered},
       {"skipped", counted.skipped},
       {"error", counted.error}}};
  for (const auto& [name, count] : fields) {
    const std::uint64_t stated = reader.count(name);
    if (stated != count) {
      fail_at(reader.path(name),
              fmt::format("is {}, but {} of the cases are {}", stated, count, name));
    }
  }
  reader.expect_no_other_field();
}

/// It follows from the cases, of this version; a later one may count otherwise.
void expect_coverage(ObjectReader& root, const harness::RunRecord& record) {
  const Json& stated = root.at("coverage");
  // As objects whose fields may come in any order.
  using Unordered = nlohmann::json;
  if (root.format().open || Unordered(stated) == Unordered(coverage_json(record))) return;
  fail_at(root.path("coverage"), "is not what the cases come to");
}

/// "3.1" is major 3, minor 1; versions before 3 are plain integers.
Format format_of(const Json& version) {
  const std::string reads = fmt::format("this version of fairdraw reads {} to {}.{}", kOldestMajor,
                                        kSchemaMajor, kSchemaMinor);
  if (version.is_number_unsigned() && version.get<std::uint64_t>() == kOldestMajor) {
    return {.major = kOldestMajor};
  }
  if (!version.is_string()) fail_at("schema_version", "is " + shown(version) + "; " + reads);
  const std::string text = version.get<std::string>();
  int major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto [dot, wrong] = std::from_chars(text.data(), end, major);
  bool right = wrong == std::errc() && dot != end && *dot == '.';
  if (right) {
    const auto [stop, error] = std::from_chars(dot + 1, end, minor);
    right = error == std::errc() && stop == end && minor >= 0;
  }
  if (!right || text != fmt::format("{}.{}", major, minor) || major < kSchemaMajor) {
    fail_at("schema_version", "is " + shown(version) + "; " + reads);
  }
  if (major > kSchemaMajor) {
    fail_at("schema_version", "is " + shown(version) +
                                  ": the record was written by a newer fairdraw, in a format that "
                                  "is not compatible; " +
                                  reads);
  }
  return {.major = major, .open = minor > kSchemaMinor};
}

harness::SeenDefinitions seen_of(ObjectReader seen) {
  harness::SeenDefinitions definitions;
  definitions.closest = seen.text("closest");
  for (ObjectReader& one : seen.objects("differences")) {
    definitions.differences.push_back(
        {one.text("meaning"), one.text("declared"), one.texts("values")});
    one.expect_no_other_field();
  }
  seen.expect_no_other_field();
  return definitions;
}

/// They follow from the cases, and are made again; what is written there must be causes all the
/// same.
void expect_causes(std::vector<ObjectReader> causes) {
  for (ObjectReader& one : causes) {
    for (const char* field : {"name", "sentence", "change", "reason"}) one.text(field);
    one.texts("cases");
    one.expect_no_other_field();
  }
}

void read_budget(ObjectReader budget, harness::ErrorBudget& to) {
  to.false_alarm_rate = budget.number("false_alarm_rate", kProbability);
  to.spent = budget.number("spent", kProbability);
  if (budget.format().major >= 3) to.statistical_cases = budget.count("statistical_cases");
  budget.expect_no_other_field();
}

void read_nights(std::vector<ObjectReader> nights, std::vector<harness::Night>& to) {
  for (ObjectReader& one : nights) {
    harness::Night night;
    night.seed = seed_of(one.text("seed"), one.path("seed"));
    night.seed_source = one.text("seed_source");
    night.commit = one.text("commit");
    night.false_alarm_rate = one.number("false_alarm_rate", kProbability);
    one.expect_no_other_field();
    to.push_back(std::move(night));
  }
}

void read_places(ObjectReader places, harness::RunRecord& to) {
  to.planned = places.count("of");
  to.places = places.counts("cases");
  if (to.places.size() != to.cases.size()) {
    fail_at(places.path("cases"),
            fmt::format("has {} places for {} cases", to.places.size(), to.cases.size()));
  }
  places.expect_no_other_field();
}

harness::RunRecord record_of(const Json& json) {
  // The version decides how all else is read, so it is read first.
  const Format format = format_of(ObjectReader(json, "", {}).at("schema_version"));
  ObjectReader root(json, "", format);
  root.at("schema_version");
  harness::RunRecord record;

  ObjectReader tool = root.object("tool");
  if (tool.text("name") != "fairdraw") {
    fail_at("tool.name", "is " + shown(tool.at("name")) + "; expected \"fairdraw\"");
  }
  record.tool_version = tool.text("version");
  tool.expect_no_other_field();

  ObjectReader environment = root.object("environment");
  for (const std::string& name : environment.keys()) {
    record.environment[name] = environment.text(name);
  }

  ObjectReader seed = root.object("seed");
  record.seed = seed_of(seed.text("value"), seed.path("value"));
  record.seed_source = seed.text("source");
  seed.expect_no_other_field();

  record.suite = root.choice("suite", kSuites);
  record.shard = shard_of(root);
  if (root.has("required")) record.required = root.names("required");
  if (root.has("max_skipped")) {
    record.max_skipped = root.finite_number("max_skipped", Range{0, kWholePercent});
  }
  if (format.major >= 3) {
    record.commit = root.text("commit");
    record.selection = root.text("selection");
    record.options = root.text("options");
    record.incomplete = root.optional_text("incomplete");
  }
  if (root.has("case_part")) record.case_part = part_of(root);
  read_budget(root.object("error_budget"), record.error_budget);
  if (root.has("nights")) read_nights(root.objects("nights"), record.nights);
  for (ObjectReader& sampler : root.objects("samplers")) {
    record.samplers.push_back(
        {sampler.name("name"), sampler.text("version"), sampler.text("semantics")});
    if (sampler.has("notes")) record.samplers.back().notes = sampler.names("notes");
    if (sampler.has("abilities")) record.samplers.back().abilities = sampler.count("abilities");
    if (sampler.has("promises")) record.samplers.back().promises = sampler.count("promises");
    if (sampler.has("seen")) record.samplers.back().seen = seen_of(sampler.object("seen"));
    sampler.expect_no_other_field();
  }
  if (root.has("causes")) expect_causes(root.objects("causes"));
  if (root.has("small_mistakes")) {
    for (ObjectReader& one : root.objects("small_mistakes")) {
      record.small_mistakes.push_back({one.name("mistake"), one.name("id"),
                                       one.number("discrepancy", kNotNegative), one.count("draws"),
                                       one.count("needed")});
      one.expect_no_other_field();
    }
  }
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  for (const ObjectReader& one : root.objects("cases")) {
    harness::CaseRecord record_of_case = case_of(one);
    const auto [known, is_new] =
        places.emplace(std::pair{record_of_case.id, record_of_case.sampler}, record.cases.size());
    if (!is_new) {
      fail_at(one.path("id"), fmt::format("is {} of {}, as is cases[{}].id: a case counts once",
                                          shown(Json(record_of_case.id)),
                                          shown(Json(record_of_case.sampler)), known->second));
    }
    record.cases.push_back(std::move(record_of_case));
  }
  if (root.has("places")) read_places(root.object("places"), record);
  record.draws = root.count("draws");
  std::uint64_t draws = 0;
  for (const harness::CaseRecord& one : record.cases) draws += one.draws;
  if (record.draws != draws) {
    fail_at("draws",
            fmt::format("is {}, but those of the cases add up to {}", record.draws, draws));
  }
  record.seconds = root.number("seconds", kNotNegative);
  expect_summary(root.object("summary"), record.summary());
  if (root.has("coverage")) expect_coverage(root, record);
  root.expect_no_other_field();
  return record;
}

}  // namespace

harness::RunRecord from_json(const std::string& text) { return record_of(parse_json(text)); }

}  // namespace fairdraw::reports
