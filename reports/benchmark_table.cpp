#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reports/escape.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

constexpr std::size_t kColumns = 10;
using Line = std::array<std::string, kColumns>;

constexpr std::array<bool, kColumns> kNumeric = {false, false, true,  true, false,
                                                 false, true,  false, true, true};

Line line_of(const harness::BenchmarkRecord& row) {
  return {terminal_text(row.backend),
          terminal_text(row.operation),
          std::to_string(row.batch),
          std::to_string(row.vocab),
          terminal_text(row.dtype),
          terminal_text(row.logits),
          fmt::format("{:.1f}", row.microseconds),
          terminal_text(row.floor),
          fmt::format("{:.1f}", row.floor_microseconds),
          fmt::format("{:.2f}", row.ratio)};
}

}  // namespace

std::string to_text_table(const std::vector<harness::BenchmarkRecord>& rows) {
  std::vector<Line> lines = {{"backend", "operation", "batch", "vocab", "dtype", "logits",
                              "microseconds", "floor", "floor_us", "ratio"}};
  for (const harness::BenchmarkRecord& row : rows) lines.push_back(line_of(row));
  std::array<std::size_t, kColumns> widths{};
  for (const Line& line : lines) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      widths[column] = std::max(widths[column], code_points(line[column]));
    }
  }
  std::string table;
  for (const Line& line : lines) {
    std::string text;
    for (std::size_t column = 0; column < kColumns; ++column) {
      const std::string padding(widths[column] - code_points(line[column]), ' ');
      text += (column == 0 ? "" : "  ") +
              (kNumeric[column] ? padding + line[column] : line[column] + padding);
    }
    table += text + "\n";
  }
  return table;
}

}  // namespace fairdraw::reports
