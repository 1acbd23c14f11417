#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "reports/escape.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

using Json = nlohmann::ordered_json;
using harness::Verdict;

/// A report is four levels deep. Functions that walk a value recurse, so what is much deeper than
/// any version of the format would end the stack.
constexpr int kDeepest = 16;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw std::runtime_error(fmt::format("report: field '{}' {}", terminal_text(path), what));
}

/// A value for a message: cut, and safe to print.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

/// An object whose fields are all asked for, each by its type, and which has no others.
class ObjectReader {
 public:
  ObjectReader(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
    if (!value_.is_object()) {
      fail(path_.empty() ? "(root)" : path_, "is " + shown(value_) + "; expected an object");
    }
  }

  std::string path(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const Json& at(const std::string& key) {
    asked_.insert(key);
    const auto found = value_.find(key);
    if (found == value_.end()) fail(path(key), "is missing");
    return *found;
  }

  std::string text(const std::string& key) {
    const Json& value = at(key);
    if (!value.is_string()) fail(path(key), "is " + shown(value) + "; expected a string");
    return value.get<std::string>();
  }

  std::uint64_t count(const std::string& key) {
    const Json& value = at(key);
    if (!value.is_number_unsigned()) {
      fail(path(key), "is " + shown(value) + "; expected an integer from 0 to 2^64 - 1");
    }
    return value.get<std::uint64_t>();
  }

  std::optional<double> optional_number(const std::string& key) {
    const Json& value = at(key);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number()) fail(path(key), "is " + shown(value) + "; expected a number or null");
    return value.get<double>();
  }

  double number(const std::string& key) {
    return optional_number(key).value_or(std::numeric_limits<double>::quiet_NaN());
  }

  ObjectReader object(const std::string& key) { return {at(key), path(key)}; }

  const Json& array(const std::string& key) {
    const Json& value = at(key);
    if (!value.is_array()) fail(path(key), "is " + shown(value) + "; expected an array");
    return value;
  }

  /// The keys of an object that is a map.
  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const auto& item : value_.items()) keys.push_back(item.key());
    return keys;
  }

  void expect_no_other_field() const {
    for (const std::string& key : keys()) {
      if (!asked_.contains(key)) fail(path(key), "is unknown");
    }
  }

 private:
  const Json& value_;
  std::string path_;
  std::set<std::string> asked_;
};

Verdict verdict_of(const std::string& name, const std::string& path) {
  for (const Verdict verdict : {Verdict::passed, Verdict::failed, Verdict::underpowered,
                                Verdict::skipped, Verdict::error}) {
    if (name == to_string(verdict)) return verdict;
  }
  fail(path, "is " + shown(Json(name)) + "; allowed: passed, failed, underpowered, skipped, error");
}

std::uint64_t seed_of(const std::string& decimal, const std::string& path) {
  std::uint64_t seed = 0;
  const char* end = decimal.data() + decimal.size();
  const auto [stop, error] = std::from_chars(decimal.data(), end, seed);
  // Equal to its own spelling: no sign, no leading zero, nothing after it.
  if (error != std::errc() || stop != end || std::to_string(seed) != decimal) {
    fail(path, "is " + shown(Json(decimal)) + "; expected an integer from 0 to 2^64 - 1");
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
      fail(reader.path(name),
           fmt::format("is {}, but {} of the cases are {}", stated, count, name));
    }
  }
  reader.expect_no_other_field();
}

harness::RunRecord record_of(const Json& json) {
  ObjectReader root(json, "");
  if (const Json& version = root.at("schema_version"); version != 2) {
    fail("schema_version", "is " + shown(version) + "; this version reads 2");
  }
  harness::RunRecord record;

  ObjectReader tool = root.object("tool");
  if (tool.text("name") != "fairdraw") {
    fail("tool.name", "is " + shown(tool.at("name")) + "; expected \"fairdraw\"");
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

  ObjectReader budget = root.object("error_budget");
  record.error_budget.false_alarm_rate = budget.number("false_alarm_rate");
  record.error_budget.spent = budget.number("spent");
  budget.expect_no_other_field();

  const Json& samplers = root.array("samplers");
  for (std::size_t i = 0; i < samplers.size(); ++i) {
    ObjectReader sampler(samplers[i], fmt::format("samplers[{}]", i));
    record.samplers.push_back(
        {sampler.text("name"), sampler.text("version"), sampler.text("semantics")});
    sampler.expect_no_other_field();
  }
  const Json& cases = root.array("cases");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    record.cases.push_back(case_of(ObjectReader(cases[i], fmt::format("cases[{}]", i))));
  }
  record.draws = root.count("draws");
  record.seconds = root.number("seconds");
  expect_summary(root.object("summary"), record.summary());
  root.expect_no_other_field();
  return record;
}

}  // namespace

harness::RunRecord from_json(const std::string& text) {
  const Json::parser_callback_t refuse_depth = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) {
      throw std::runtime_error(fmt::format("report: nested deeper than {} levels", kDeepest));
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, refuse_depth);
  } catch (const Json::exception& error) {
    throw std::runtime_error("report: not JSON: " + terminal_text(error.what()));
  }
  return record_of(json);
}

}  // namespace fairdraw::reports
