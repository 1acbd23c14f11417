#include "reports/extras.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "reports/report.h"
#include "reports/tests/sample_records.h"

namespace fairdraw::reports {
namespace {

/// Returns the error message that `read` gives for `text`.
template <class Read>
std::string error_of(const Read& read, const std::string& text) {
  try {
    read(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BenchmarkRows, come_back_as_they_were_written) {
  const auto rows = benchmark_rows();
  const auto read = benchmark_from_json(to_json(rows));
  ASSERT_EQ(read.size(), rows.size());
  EXPECT_EQ(to_json(read), to_json(rows));
}

TEST(BenchmarkRows, a_wrong_field_is_named) {
  EXPECT_NE(error_of(benchmark_from_json, "{}").find("benchmark"), std::string::npos);
  EXPECT_NE(error_of(benchmark_from_json, "[{\"backend\": 1}]").find("benchmark[0].backend"),
            std::string::npos);
  EXPECT_NE(error_of(benchmark_from_json, "[{\"backend\": \"x\"}]").find("operation"),
            std::string::npos);
  EXPECT_NE(error_of(benchmark_from_json, "[1"), "no error");
  // A time of NaN is not slower than any other time, but it must not count as unchanged.
  auto rows = benchmark_rows();
  rows[1].microseconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(error_of(benchmark_from_json, to_json(rows)).find("benchmark[1].microseconds' is null"),
            std::string::npos);
  rows[1].microseconds = -1;
  EXPECT_NE(error_of(benchmark_from_json, to_json(rows)).find("benchmark[1].microseconds' is -1"),
            std::string::npos);
}

TEST(KillMatrix, tells_who_found_a_mutant) {
  const auto rows = kill_matrix_from_json(
      R"({"seed": 7, "mutants": [
           {"name": "a", "killed": true, "checks": {"mask": {"by": "mask/x", "draws": 0}}},
           {"name": "b", "killed": false, "checks": {"mask": null}}]})");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].killed);
  EXPECT_EQ(rows[0].checks.at("mask"), "mask/x");
  EXPECT_FALSE(rows[1].killed);
  EXPECT_EQ(rows[1].checks.at("mask"), "");
}

TEST(KillMatrix, a_wrong_field_is_named) {
  EXPECT_NE(error_of(kill_matrix_from_json, "{}").find("mutants"), std::string::npos);
  EXPECT_NE(error_of(kill_matrix_from_json, R"({"mutants": [{"name": "a", "killed": 1}]})")
                .find("killed"),
            std::string::npos);
}

}  // namespace
}  // namespace fairdraw::reports
