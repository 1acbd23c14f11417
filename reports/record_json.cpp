// Reads and writes the fields that report.json has for a record.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "harness/run/evidence/causes.h"
#include "reports/coverage.h"
#include "reports/evidence_json.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

using harness::RunRecord;

constexpr int kOldestMajor = 2;
constexpr Range kPercentage{0, 100, true};

constexpr const char* kSuiteNames[] = {"smoke", "gate", "nightly"};
constexpr OneOf kSuites{kSuiteNames};

/// Returns whether the text is "I/N" with 1 <= I <= N, both in canonical spelling.
bool is_part(std::string_view text) {
  std::uint64_t part = 0, parts = 0;
  const char* const end = text.data() + text.size();
  const auto [slash, wrong] = std::from_chars(text.data(), end, part);
  if (wrong == std::errc() && slash != end) std::from_chars(slash + 1, end, parts);
  return part >= 1 && part <= parts && text == fmt::format("{}/{}", part, parts);
}

void is_shard(const Value& value, const std::string& text) {
  if (!is_part(text)) value.refuse("expected I/N with 1 <= I <= N");
}

void is_case_part(const Value& value, const std::string& text) {
  constexpr std::string_view kAgain = " again";
  std::string_view part = text;
  if (part.ends_with(kAgain)) part.remove_suffix(kAgain.size());
  if (!is_part(part)) value.refuse("expected I/N with 1 <= I <= N, or 'I/N again'");
}

void case_fields(JsonObject& json, harness::CaseRecord& record) {
  json("id", record.id, named);
  json("suite", record.suite, kSuites);
  json("check", record.check, named);
  json("sampler", record.sampler, named);
  json("semantics", record.semantics);
  if (json.since(3)) json("filter", record.filter);
  json.optional("features", record.features, named);
  json.choice("verdict", record.verdict, {"passed", "failed", "underpowered", "skipped", "error"});
  json("draws", record.draws);
  json("rows", record.rows);
  json("vocab", record.vocab);
  json("statistic", record.statistic);
  json("dof", record.dof, kNotNegative);
  json("p_value", record.p_value, kProbability);
  json("total_variation", record.total_variation, kProbability);
  json("min_discrepancy", record.min_discrepancy, kNotNegative);
  json("seconds", record.seconds, kNotNegative);
  json("message", record.message);
  json("watch", record.watch);
  json.optional("lacks", record.lacks, named);
  json("replay", record.replay);
  json("measures", record.measures);
  json.optional_list("cells", record.cells, cell_fields);
  json.optional_list("counted", record.counted, counted_fields);
  if (json.has("evidence", has_something(record.evidence))) {
    json.object("evidence", [&](JsonObject& of) { evidence_fields(of, record.evidence); });
  }
}

void seen_fields(JsonObject& json, harness::SeenDefinitions& seen) {
  json("closest", seen.closest);
  json.list("differences", seen.differences, [](JsonObject& of, harness::SeenDefinition& one) {
    of("meaning", one.meaning);
    of("declared", one.declared);
    of("values", one.values);
  });
}

void condition_fields(JsonObject& json, harness::SharedCondition& condition) {
  json("subject", condition.subject, named);
  json("text", condition.text, named);
}

void sampler_fields(JsonObject& json, harness::SamplerRecord& sampler) {
  json("name", sampler.name, named);
  json("version", sampler.version);
  json("semantics", sampler.semantics);
  json.optional("notes", sampler.notes, named);
  json.optional("abilities", sampler.abilities);
  json.optional("promises", sampler.promises);
  json.object("seen", sampler.seen, seen_fields);
  json.optional_list("conditions", sampler.conditions, condition_fields);
}

void night_fields(JsonObject& json, harness::Night& night) {
  json("seed", Decimal{night.seed});
  json("seed_source", night.seed_source);
  json("commit", night.commit);
  json("false_alarm_rate", night.false_alarm_rate, kProbability);
}

void mistake_fields(JsonObject& json, harness::SmallMistake& mistake) {
  json("mistake", mistake.mistake, named);
  json("id", mistake.id, named);
  json("discrepancy", mistake.discrepancy, kNotNegative);
  json("draws", mistake.draws);
  json("needed", mistake.needed);
}

/// Writes the causes of the failures, for programs. Causes are computed from the cases, and
/// computed again after reading; nevertheless, a text must contain valid causes.
void add_causes(JsonObject& json, const RunRecord& record) {
  std::vector<harness::Cause> causes;
  if (!json.reading()) causes = harness::ranked_causes(record);
  json.optional_list("causes", causes, [&record](JsonObject& of, harness::Cause& cause) {
    std::vector<std::string> ids;
    for (const std::size_t place : cause.cases) ids.push_back(record.cases[place].id);
    of("name", cause.name);
    of("sentence", cause.text.sentence);
    of("change", cause.text.change);
    of("reason", cause.reason);
    of("cases", ids);
  });
}

void expect_each_case_once(const JsonObject& json, const std::vector<harness::CaseRecord>& cases) {
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> places;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto [known, is_new] = places.try_emplace({cases[i].id, cases[i].sampler}, i);
    if (is_new) continue;
    json.fail(fmt::format("cases[{}].id", i),
              fmt::format("is {} of {}, as is cases[{}].id: a case counts once",
                          shown(Json(cases[i].id)), shown(Json(cases[i].sampler)), known->second));
  }
}

void add_places(JsonObject& json, RunRecord& record) {
  if (!json.has("places", record.planned > 0)) return;
  json.object("places", [&record](JsonObject& places) {
    places("of", record.planned);
    places("cases", record.places);
    if (record.places.size() == record.cases.size() || !places.reading()) return;
    places.fail("cases", fmt::format("has {} places for {} cases", record.places.size(),
                                     record.cases.size()));
  });
}

void add_summary(JsonObject& json, const harness::Summary& summary) {
  json.object("summary", [&summary](JsonObject& of) {
    const std::array<std::pair<const char*, std::uint64_t>, 5> fields = {
        {{"passed", summary.passed},
         {"failed", summary.failed},
         {"underpowered", summary.underpowered},
         {"skipped", summary.skipped},
         {"error", summary.error}}};
    for (const auto& [name, count] : fields) {
      std::uint64_t stated = count;
      of(name, stated);
      if (stated == count) continue;
      of.fail(name, fmt::format("is {}, but {} of the cases are {}", stated, count, name));
    }
  });
}

/// Handles the coverage. In a report of this version, the coverage must equal that of its cases;
/// later versions may count differently.
void add_coverage(JsonObject& json, const RunRecord& record) {
  const Json coverage = coverage_json(record);
  if (!json.has("coverage", !coverage.is_null())) return;
  Json stated = coverage;
  json("coverage", stated);
  // Compares objects whose fields may come in any order.
  using Unordered = nlohmann::json;
  if (json.open() || Unordered(stated) == Unordered(coverage)) return;
  json.fail("coverage", "does not follow from the cases");
}

void record_fields(JsonObject& json, RunRecord& record) {
  Json version = fmt::format("{}.{}", kSchemaMajor, kSchemaMinor);
  json("schema_version", version);  // format_of has already read the version, which decides how the
                                    // rest is read
  json.object("tool", [&record](JsonObject& tool) {
    std::string name = "fairdraw";
    tool("name", name, [](const Value& value, const std::string& text) {
      if (text != "fairdraw") value.refuse("expected \"fairdraw\"");
    });
    tool("version", record.tool_version);
  });
  json("environment", record.environment);
  json.object("seed", [&record](JsonObject& seed) {
    seed("value", Decimal{record.seed});
    seed("source", record.seed_source);
  });
  json("suite", record.suite, kSuites);
  if (json.since(3)) json("commit", record.commit);
  json("shard", record.shard, is_shard);
  json.optional("case_part", record.case_part, is_case_part);
  if (json.since(3)) {
    json("selection", record.selection);
    json("options", record.options);
    if (json.has("incomplete", true)) json("incomplete", record.incomplete);
  }
  json.optional("required", record.required, named);
  if (json.has("max_skipped", record.max_skipped.has_value())) {
    if (json.reading()) record.max_skipped.emplace();
    json("max_skipped", *record.max_skipped, kPercentage);
  }
  json.object("error_budget", [&budget = record.error_budget](JsonObject& of) {
    of("false_alarm_rate", budget.false_alarm_rate, kProbability);
    of("spent", budget.spent, kProbability);
    if (of.since(3)) of("statistical_cases", budget.statistical_cases);
  });
  json.optional_list("nights", record.nights, night_fields);
  json.list("samplers", record.samplers, sampler_fields);
  add_causes(json, record);
  if (json.has("small_mistakes", true)) {
    json.list("small_mistakes", record.small_mistakes, mistake_fields);
  }
  if (json.reading()) {
    json.list("cases", record.cases, case_fields);
    expect_each_case_once(json, record.cases);
  } else {
    Json place = Json::array();
    json("cases", place);  // to_json writes the cases, so that thousands of cases are not in memory
                           // twice
  }
  add_places(json, record);
  json("draws", record.draws);
  std::uint64_t draws = 0;
  for (const harness::CaseRecord& one : record.cases) draws += one.draws;
  if (json.reading() && record.draws != draws) {
    json.fail("draws", fmt::format("is {}, but the sum over the cases is {}", record.draws, draws));
  }
  json("seconds", record.seconds, kNotNegative);
  add_summary(json, record.summary());
  add_coverage(json, record);
}

/// Returns the format of a report; version "3.1" has major 3 and minor 1. Versions before 3 are
/// plain integers.
Format format_of(const Json& json) {
  Format format;
  const std::string key = "schema_version";
  const Value root(json, format);
  const Value version = JsonObject(root).at(key);
  const std::string reads = fmt::format("this version of fairdraw reads {} to {}.{}", kOldestMajor,
                                        kSchemaMajor, kSchemaMinor);
  format.major = kOldestMajor;
  if (version.json() == Json(kOldestMajor)) return format;
  if (!version.json().is_string()) version.refuse(reads);
  const std::string text = version.json().get<std::string>();
  int minor = 0;
  const char* const end = text.data() + text.size();
  const auto [dot, wrong] = std::from_chars(text.data(), end, format.major);
  if (wrong == std::errc() && dot != end) std::from_chars(dot + 1, end, minor);
  if (text != fmt::format("{}.{}", format.major, minor) || minor < 0 ||
      format.major < kSchemaMajor) {
    version.refuse(reads);
  }
  if (format.major > kSchemaMajor) {
    version.fail(version.path(), "is " + shown(version.json()) +
                                     ": the record was written by a newer fairdraw, in a format "
                                     "that is not compatible; " +
                                     reads);
  }
  format.open = minor > kSchemaMinor;
  return format;
}

}  // namespace

Json record_json(const RunRecord& record) { return object_json(record, record_fields); }

std::string to_json(const RunRecord& record) {
  const Json json = record_json(record);
  std::string text = "{";
  for (const auto& [name, value] : json.items()) {
    text += text.size() > 1 ? ",\n  " : "\n  ";
    text += dump(Json(name), -1) + ": ";
    if (name != "cases" || record.cases.empty()) {
      for (const char c : dump(value, 2)) {
        text += c == '\n' ? std::string("\n  ") : std::string(1, c);
      }
      continue;
    }
    // Writes one case per line, so that lines can be compared and thousands of cases stay small.
    const char* before = "[\n    ";
    for (const harness::CaseRecord& one : record.cases) {
      text += std::exchange(before, ",\n    ") + dump(object_json(one, case_fields), -1);
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

RunRecord from_json(const std::string& text) {
  const Json json = parse_json(text, {});
  const Format format = format_of(json);
  RunRecord record;
  JsonObject::read_object(Value(json, format),
                          [&record](JsonObject& of) { record_fields(of, record); });
  return record;
}

}  // namespace fairdraw::reports
