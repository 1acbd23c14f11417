#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "reports/report.h"
#include "reports/tests/sample_records.h"

namespace fairdraw::reports {
namespace {

using Json = nlohmann::ordered_json;
using harness::RunRecord;

std::string reading_error(const std::string& text) {
  try {
    from_json(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

/// Returns the error that reading the small report gives after `change`.
std::string error_after(const std::function<void(Json&)>& change) {
  Json json = Json::parse(to_json(small_record()));
  change(json);
  return reading_error(json.dump());
}

TEST(ReportJson, a_report_comes_back_byte_for_byte) {
  const std::string text = to_json(small_record());
  EXPECT_EQ(to_json(from_json(text)), text);
  const std::string nasty = to_json(nasty_record());
  EXPECT_EQ(to_json(from_json(nasty)), nasty);
  RunRecord empty;
  empty.suite = "gate";
  empty.shard = "1/1";
  EXPECT_EQ(to_json(from_json(to_json(empty))), to_json(empty));
}

TEST(ReportJson, every_field_comes_back) {
  const RunRecord record = from_json(to_json(small_record()));
  EXPECT_EQ(record.tool_version, "0.1.0");
  EXPECT_EQ(record.suite, "smoke");
  EXPECT_EQ(record.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(record.seed_source, "commit 0123abc");
  EXPECT_EQ(record.shard, "1/2");
  EXPECT_EQ(record.environment, small_record().environment);
  EXPECT_EQ(record.error_budget.false_alarm_rate, 1e-9);
  EXPECT_EQ(record.error_budget.spent, 3.25e-10);
  ASSERT_EQ(record.samplers.size(), 2u);
  EXPECT_EQ(record.samplers[1].semantics, "vllm_torch");
  ASSERT_EQ(record.cases.size(), small_record().cases.size());
  const harness::CaseRecord& first = record.cases[0];
  EXPECT_EQ(first.id, "sample/top_p/gaussian/v1000");
  EXPECT_EQ(first.draws, 1'000'000u);
  EXPECT_EQ(first.p_value, 0.1);
  EXPECT_EQ(first.measures.at("alpha"), 5e-13);
  EXPECT_FALSE(record.cases[1].statistic.has_value());
  EXPECT_EQ(record.draws, 3'000'100u);
  EXPECT_EQ(record.seconds, 1.5);
}

TEST(ReportJson, doubles_come_back_bit_for_bit) {
  RunRecord record = small_record();
  for (const double value : {0.1, 1.0 / 3, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
                             123456789012345680.0, 1e-12, -0.0}) {
    record.cases[0].statistic = value;
    const std::optional<double> back = from_json(to_json(record)).cases[0].statistic;
    ASSERT_TRUE(back == value);
    EXPECT_EQ(std::signbit(back.value_or(0)), std::signbit(value));
  }
}

TEST(ReportJson, numbers_that_json_lacks_are_null) {
  RunRecord record = small_record();
  record.cases[0].p_value = std::numeric_limits<double>::quiet_NaN();
  record.cases[0].statistic = -std::numeric_limits<double>::infinity();
  record.cases[0].measures["alpha"] = std::numeric_limits<double>::infinity();
  record.seconds = std::numeric_limits<double>::quiet_NaN();
  const Json json = Json::parse(to_json(record));
  EXPECT_TRUE(json["cases"][0]["p_value"].is_null());
  EXPECT_TRUE(json["cases"][0]["statistic"].is_null());
  EXPECT_TRUE(json["cases"][0]["measures"]["alpha"].is_null());
  EXPECT_TRUE(json["seconds"].is_null());
  const RunRecord back = from_json(to_json(record));
  EXPECT_FALSE(back.cases[0].p_value.has_value());
  EXPECT_TRUE(std::isnan(back.cases[0].measures.at("alpha")));
  EXPECT_TRUE(std::isnan(back.seconds));
}

TEST(ReportJson, equal_records_give_equal_bytes_but_for_time_and_host) {
  RunRecord other = small_record();
  EXPECT_EQ(to_json(other), to_json(small_record()));
  other.seconds = 99;
  other.environment = {{"host", "another"}};
  for (harness::CaseRecord& one : other.cases) one.seconds = 7;
  EXPECT_NE(to_json(other), to_json(small_record()));
  Json a = Json::parse(to_json(other)), b = Json::parse(to_json(small_record()));
  for (Json* json : {&a, &b}) {
    (*json)["seconds"] = (*json)["environment"] = nullptr;
    for (Json& one : (*json)["cases"]) one["seconds"] = nullptr;
  }
  EXPECT_EQ(a.dump(), b.dump());
}

TEST(ReportJson, a_field_that_is_wrong_is_named) {
  EXPECT_EQ(error_after([](Json& json) { json["seed"].erase("value"); }),
            "report: field 'seed.value' is missing");
  EXPECT_EQ(error_after([](Json& json) { json["cases"][2]["draws"] = -1; }),
            "report: field 'cases[2].draws' is -1; expected an integer from 0 to 2^64 - 1");
  EXPECT_EQ(error_after([](Json& json) { json["cases"][2]["rows"] = 1.5; }),
            "report: field 'cases[2].rows' is 1.5; expected an integer from 0 to 2^64 - 1");
  EXPECT_EQ(error_after([](Json& json) { json["cases"][0]["verdict"] = "maybe"; }),
            "report: field 'cases[0].verdict' is \"maybe\"; allowed: passed, failed, underpowered, "
            "skipped, error");
  EXPECT_EQ(error_after([](Json& json) { json["cases"][1]["p_value"] = "0.1"; }),
            "report: field 'cases[1].p_value' is \"0.1\"; expected a number or null");
  EXPECT_EQ(error_after([](Json& json) { json["cases"][1]["measures"]["x"] = true; }),
            "report: field 'cases[1].measures.x' is true; expected a number or null");
  EXPECT_EQ(error_after([](Json& json) { json["samplers"][1]["version"] = nullptr; }),
            "report: field 'samplers[1].version' is null; expected a string");
  EXPECT_EQ(error_after([](Json& json) { json["samplers"] = Json::object(); }),
            "report: field 'samplers' is {}; expected an array");
  EXPECT_EQ(error_after([](Json& json) { json["tool"] = 1; }),
            "report: field 'tool' is 1; expected an object");
  EXPECT_EQ(error_after([](Json& json) { json["tool"]["name"] = "other"; }),
            "report: field 'tool.name' is \"other\"; expected \"fairdraw\"");
  EXPECT_EQ(error_after([](Json& json) { json["cases"][0]["color"] = 1; }),
            "report: field 'cases[0].color' is unknown");
  EXPECT_EQ(error_after([](Json& json) { json["extra"] = 1; }), "report: field 'extra' is unknown");
  EXPECT_EQ(error_after([](Json& json) { json["summary"]["passed"] = 4; }),
            "report: field 'summary.passed' is 4, but 3 of the cases are passed");
  EXPECT_EQ(error_after([](Json& json) { json["draws"] = 7; }),
            "report: field 'draws' is 7, but the sum over the cases is 3000100");
  EXPECT_EQ(reading_error("[]"), "report: field '(root)' is []; expected an object");
}

TEST(ReportJson, a_number_or_name_out_of_range_is_named) {
  const auto error_at = [](const char* pointer, const Json& value) {
    return error_after([&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_EQ(error_at("/cases/0/p_value", -3),
            "report: field 'cases[0].p_value' is -3; expected 0 to 1");
  EXPECT_EQ(error_at("/cases/0/p_value", 1.5),
            "report: field 'cases[0].p_value' is 1.5; expected 0 to 1");
  EXPECT_EQ(error_at("/cases/0/dof", -1),
            "report: field 'cases[0].dof' is -1; expected at least 0");
  EXPECT_EQ(error_at("/cases/0/seconds", -0.5),
            "report: field 'cases[0].seconds' is -0.5; expected at least 0");
  EXPECT_EQ(error_at("/error_budget/spent", 2),
            "report: field 'error_budget.spent' is 2; expected 0 to 1");
  EXPECT_EQ(error_at("/cases/0/id", ""), "report: field 'cases[0].id' is empty; expected a name");
  EXPECT_EQ(error_at("/samplers/0/name", ""),
            "report: field 'samplers[0].name' is empty; expected a name");
  EXPECT_EQ(error_at("/suite", "day"),
            "report: field 'suite' is \"day\"; allowed: smoke, gate, nightly");
  for (const char* const shard :
       {"9/1", "0/1", "1/0", "1", "1/2/3", "01/2", " 1/2", "", "-1/2", "1/99999999999999999999"}) {
    EXPECT_EQ(error_at("/shard", shard), "report: field 'shard' is \"" + std::string(shard) +
                                             "\"; expected I/N with 1 <= I <= N");
  }
}

TEST(ReportJson, a_case_that_is_there_twice_does_not_count_twice) {
  EXPECT_EQ(
      error_after([](Json& json) {
        json["cases"].push_back(json["cases"][1]);
        json["summary"]["passed"] = 4;
      }),
      "report: field 'cases[7].id' is \"sample/mask/ties_at_k/v32000\" of \"cpu:avx2\", as is "
      "cases[1].id: a case counts once");
}

TEST(ReportJson, every_missing_field_is_found) {
  const Json whole = Json::parse(to_json(small_record()));
  const Json leaves = whole.flatten();
  int removed = 0;
  for (const auto& [pointer, value] : leaves.items()) {
    const Json::json_pointer place(pointer);
    const std::string& name = place.back();
    const std::string parent = place.parent_pointer().to_string();
    // The keys of these two maps are arbitrary, so none of them is required.
    if (parent == "/environment" || parent.ends_with("/measures")) continue;
    // These fields are optional, because minor versions added them.
    if (name == "incomplete" || name == "case_part" || name == "abilities" || name == "promises") {
      continue;
    }
    if (parent.find("/counted/") != std::string::npos &&
        (name == "no_token" || name == "trouble")) {
      continue;  // an empty field is left out
    }
    // Evidence leaves out its empty parts, and its lists may be shorter.
    if (parent.ends_with("/evidence") || whole[place.parent_pointer()].is_array()) continue;
    Json json = whole;
    json[place.parent_pointer()].erase(name);
    const std::string field = (parent.empty() ? "'" : ".") + name;
    EXPECT_NE(reading_error(json.dump()).find(field + "' is missing"), std::string::npos)
        << pointer;
    ++removed;
  }
  EXPECT_GT(removed, 7 * 19);  // Each of the seven cases has 19 fields with one value, and there
                               // are other fields
}

TEST(ReportJson, seeds_are_exact_decimal) {
  for (const std::string seed :
       {"", "-1", "+1", "01", "1.0", " 1", "1 ", "0x1", "18446744073709551616"}) {
    EXPECT_EQ(
        error_after([&](Json& json) { json["seed"]["value"] = seed; }),
        "report: field 'seed.value' is \"" + seed + "\"; expected an integer from 0 to 2^64 - 1");
  }
}

TEST(ReportJson, text_that_is_not_json_is_refused_without_echoing_escapes) {
  EXPECT_TRUE(reading_error("{\"a\";").starts_with("report: not JSON: "));
  EXPECT_EQ(reading_error("{\"seconds\": 1e999}"),
            "report: not JSON: a number is larger than 1.8e308, the maximum");
  const std::string error = reading_error("{\"\x1b[31m\": 1}");
  EXPECT_EQ(error.find('\x1b'), std::string::npos) << error;
  EXPECT_EQ(reading_error(std::string(100'000, '[') + std::string(100'000, ']')),
            "report: nested deeper than 16 levels");
}

TEST(ReportJson, a_truncated_text_is_called_truncated) {
  const std::string whole = to_json(small_record());
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, whole.size() / 2}) {
    EXPECT_NE(reading_error(whole.substr(0, size)).find("the file is truncated"), std::string::npos)
        << size;
  }
  // Every prefix of a report is rejected, except the prefix that lacks only the last newline.
  for (std::size_t size = 0; size + 1 < whole.size(); size += 37) {
    EXPECT_NE(reading_error(whole.substr(0, size)), "no error") << size;
  }
}

TEST(ReportJson, versions_that_cannot_be_read_are_refused_and_said_so) {
  const auto error = [](const Json& version) {
    return error_after([&version](Json& json) { json["schema_version"] = version; });
  };
  EXPECT_NE(error("4.0").find("written by a newer fairdraw"), std::string::npos);
  EXPECT_NE(error("10.2").find("written by a newer fairdraw"), std::string::npos);
  for (const Json& wrong : {Json(1), Json(3), Json(3.0), Json("3"), Json("3."), Json("3.x"),
                            Json("03.0"), Json("3.-1"), Json("2.0"), Json(nullptr)}) {
    EXPECT_NE(error(wrong).find("this version of fairdraw reads 2 to 3.3"), std::string::npos)
        << wrong;
  }
}

TEST(ReportJson, a_later_minor_version_may_add_fields_and_no_other_may) {
  const auto add = [](Json& json) {
    json["planet"] = "Mars";
    json["cases"][0]["colour"] = 7;
    json["cases"][2]["evidence"]["smell"] = {1, 2};
  };
  EXPECT_NE(error_after(add), "no error");
  Json later = Json::parse(to_json(small_record()));
  add(later);
  later["schema_version"] = "3.4";
  EXPECT_EQ(to_json(from_json(later.dump())), to_json(small_record()));
}

TEST(ReportJson, a_record_of_version_2_is_read) {
  Json old = Json::parse(to_json(small_record()));
  old["schema_version"] = 2;
  for (const char* const key : {"commit", "selection", "options", "incomplete"}) old.erase(key);
  old["error_budget"].erase("statistical_cases");
  for (Json& one : old["cases"]) {
    one.erase("filter");
    one.erase("evidence");
  }
  RunRecord expected = small_record();
  expected.commit = expected.selection = expected.options = "";
  expected.error_budget.statistical_cases = 0;
  for (harness::CaseRecord& one : expected.cases) {
    one.filter = "";
    one.evidence = {};
  }
  EXPECT_EQ(to_json(from_json(old.dump())), to_json(expected));
}

TEST(ReportJson, evidence_that_is_wrong_is_named) {
  const auto error = [](const std::function<void(Json&)>& change) {
    return error_after([&change](Json& json) { change(json["cases"][2]["evidence"]); });
  };
  EXPECT_EQ(error([](Json& json) { json["effect"]["low"] = "x"; }),
            "report: field 'cases[2].evidence.effect.low' is \"x\"; expected a number or null");
  EXPECT_EQ(error([](Json& json) { json["profiles"][1]["bins"][0] = {1, 2, 3}; }),
            "report: field 'cases[2].evidence.profiles[1].bins[0]' is [1,2,3]; expected an array "
            "of 4 numbers");
  EXPECT_EQ(error([](Json& json) { json["growth"][0]["points"][1][0] = 0.5; }),
            "report: field 'cases[2].evidence.growth[0].points[1][0]' is 0.5; expected an integer "
            "from 0 to 2^53");
  EXPECT_EQ(error([](Json& json) { json["growth"][0]["points"][1][0] = 1e300; }),
            "report: field 'cases[2].evidence.growth[0].points[1][0]' is 1e+300; expected an "
            "integer from 0 to 2^53");
  EXPECT_EQ(error([](Json& json) { json["dependence"][0]["z"].erase(0); }),
            "report: field 'cases[2].evidence.dependence[0].z' has 3 values; expected 2 rows of 2");
  EXPECT_EQ(error([](Json& json) { json["boundary"]["tokens"][0]["oracle"] = "maybe"; }),
            "report: field 'cases[2].evidence.boundary.tokens[0].oracle' is \"maybe\"; allowed: "
            "in, out, ambiguous");
  EXPECT_EQ(error([](Json& json) { json["boundary"]["tokens"][0]["kept"] = 1; }),
            "report: field 'cases[2].evidence.boundary.tokens[0].kept' is 1; expected true or "
            "false");
  EXPECT_EQ(error([](Json& json) { json["power"]["shape"] = 1; }),
            "report: field 'cases[2].evidence.power.shape' is unknown");
}

TEST(ReportJson, every_part_of_evidence_comes_back) {
  const harness::Evidence back = from_json(to_json(small_record())).cases[2].evidence;
  const harness::Evidence given = sample_evidence();
  EXPECT_EQ(back.smallest, given.smallest);
  EXPECT_EQ(back.effect->low, given.effect->low);
  EXPECT_EQ(back.decisive->p_value, given.decisive->p_value);
  EXPECT_FALSE(back.decisive->log10_e.has_value());
  ASSERT_EQ(back.profiles.size(), 3u);
  EXPECT_EQ(back.profiles[0].bins[1].expected, given.profiles[0].bins[1].expected);
  EXPECT_EQ(back.pit[0].difference, given.pit[0].difference);
  EXPECT_EQ(back.growth[0].points[1].log10_e, given.growth[0].points[1].log10_e);
  EXPECT_EQ(back.dependence[0].columns, given.dependence[0].columns);
  EXPECT_TRUE(std::isnan(back.dependence[0].z[3]));
  EXPECT_EQ(back.boundary->tokens[1].oracle, harness::Oracle::ambiguous);
  EXPECT_EQ(back.boundary->tokens[2].drawn, 31u);
  EXPECT_EQ(back.power->curve[1].draws, 1'000'000u);
}

TEST(BenchmarkJson, has_one_object_a_row_with_the_fields_in_order) {
  const Json json = Json::parse(to_json(benchmark_rows()));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0].dump(),
            R"({"backend":"cpu:avx512","operation":"top_k_top_p_sampling_from_logits","batch":1,)"
            R"("vocab":131072,"dtype":"float32","logits":"peaked","microseconds":98.25,)"
            R"("floor":"max","floor_microseconds":2.125,"ratio":46.25})");
  EXPECT_FALSE(json[0].contains("machine"));
  EXPECT_EQ(json[1]["machine"], benchmark_rows()[1].machine);
  EXPECT_EQ(to_json(std::vector<harness::BenchmarkRecord>()), "[]\n");
}

}  // namespace
}  // namespace fairdraw::reports
