#include <fmt/format.h>

#include <array>
#include <charconv>
#include <stdexcept>

#include "reports/evidence_json.h"
#include "reports/object_reader.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

using harness::Verdict;

constexpr int kOldestMajor = 2;

Verdict verdict_of(const std::string& name, const std::string& path) {
  for (const Verdict verdict : {Verdict::passed, Verdict::failed, Verdict::underpowered,
                                Verdict::skipped, Verdict::error}) {
    if (name == to_string(verdict)) return verdict;
  }
  fail_at(path,
          "is " + shown(Json(name)) + "; allowed: passed, failed, underpowered, skipped, error");
}

std::uint64_t seed_of(const std::string& decimal, const std::string& path) {
  std::uint64_t seed = 0;
  const char* end = decimal.data() + decimal.size();
  const auto [stop, error] = std::from_chars(decimal.data(), end, seed);
  // Equal to its own spelling: no sign, no leading zero, nothing after it.
  if (error != std::errc() || stop != end || std::to_string(seed) != decimal) {
    fail_at(path, "is " + shown(Json(decimal)) + "; expected an integer from 0 to 2^64 - 1");
  }
  return seed;
}

harness::CaseRecord case_of(ObjectReader reader) {
  harness::CaseRecord record;
  record.id = reader.text("id");
  record.suite = reader.text("suite");
  record.check = reader.text("check");
  record.sampler = reader.text("sampler");
  record.semantics = reader.text("semantics");
  if (reader.format().major >= 3) record.filter = reader.text("filter");
  record.verdict = verdict_of(reader.text("verdict"), reader.path("verdict"));
  record.draws = reader.count("draws");
  record.rows = reader.count("rows");
  record.vocab = reader.count("vocab");
  record.statistic = reader.optional_number("statistic");
  record.dof = reader.optional_number("dof");
  record.p_value = reader.optional_number("p_value");
  record.total_variation = reader.optional_number("total_variation");
  record.min_discrepancy = reader.optional_number("min_discrepancy");
  record.seconds = reader.number("seconds");
  record.message = reader.text("message");
  record.watch = reader.text("watch");
  record.replay = reader.text("replay");
  ObjectReader measures = reader.object("measures");
  for (const std::string& name : measures.keys()) record.measures[name] = measures.number(name);
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

void read_budget(ObjectReader budget, harness::ErrorBudget& to) {
  to.false_alarm_rate = budget.number("false_alarm_rate");
  to.spent = budget.number("spent");
  if (budget.format().major >= 3) to.statistical_cases = budget.count("statistical_cases");
  budget.expect_no_other_field();
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

  record.suite = root.text("suite");
  record.shard = root.text("shard");
  if (format.major >= 3) {
    record.commit = root.text("commit");
    record.selection = root.text("selection");
    record.options = root.text("options");
  }
  read_budget(root.object("error_budget"), record.error_budget);
  for (ObjectReader& sampler : root.objects("samplers")) {
    record.samplers.push_back(
        {sampler.text("name"), sampler.text("version"), sampler.text("semantics")});
    sampler.expect_no_other_field();
  }
  for (const ObjectReader& one : root.objects("cases")) record.cases.push_back(case_of(one));
  record.draws = root.count("draws");
  record.seconds = root.number("seconds");
  expect_summary(root.object("summary"), record.summary());
  root.expect_no_other_field();
  return record;
}

}  // namespace

harness::RunRecord from_json(const std::string& text) { return record_of(parse_json(text)); }

}  // namespace fairdraw::reports
