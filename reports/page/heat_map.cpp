// Samplers against checks, as a table: a screen reader says row, column and what is in a cell, keys
// reach each cell, and each leads to its cases.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/escape.h"
#include "reports/page/parts.h"
#include "reports/pictures/pictures.h"

namespace fairdraw::reports::html {
namespace {

constexpr std::size_t kMostRows = 64, kMostColumns = 64;

struct Row {
  std::string sampler, semantics;
  std::map<std::string, harness::Summary> checks;
};

struct HeatMap {
  std::vector<Row> rows;               ///< in the order in which they first appear
  std::vector<std::string> columns;    ///< likewise
  std::map<std::string, bool> is_red;  ///< of a column
};

HeatMap heat_map_of(const harness::RunRecord& record) {
  HeatMap map;
  for (const harness::CaseRecord& one : record.cases) {
    auto row = std::ranges::find_if(map.rows, [&one](const Row& known) {
      return known.sampler == one.sampler && known.semantics == one.semantics;
    });
    if (row == map.rows.end()) {
      row = map.rows.insert(map.rows.end(), {one.sampler, one.semantics, {}});
    }
    count(one.verdict, row->checks[one.check]);
    if (map.is_red.emplace(one.check, false).second) map.columns.push_back(one.check);
    if (one.verdict == harness::Verdict::failed || one.verdict == harness::Verdict::error) {
      map.is_red[one.check] = true;
    }
  }
  return map;
}

/// How many cases are red says that some are.
std::string mark_of(const harness::Summary& counts) {
  const std::uint64_t red = counts.failed + counts.error;
  return red > 0 ? std::to_string(red) : pictures::outcome_mark(counts);
}

std::string cell(const Row& row, const std::string& check) {
  const auto found = row.checks.find(check);
  if (found == row.checks.end()) return "<td></td>";
  const harness::Summary& counts = found->second;
  const std::string words = fmt::format(
      "{} on {}: {} failed, {} error, {} underpowered, {} passed, {} skipped", check, row.sampler,
      counts.failed, counts.error, counts.underpowered, counts.passed, counts.skipped);
  std::vector<Wanted> wanted = {{"sampler", row.sampler}, {"check", check}};
  const harness::Verdict verdict = verdict_of(counts);
  if (verdict != harness::Verdict::passed) wanted.push_back({"verdict", to_string(verdict)});
  // A link's name is what it says, and for those who hear it all that is counted.
  return fmt::format("<td>{}</td>", show_link(wanted,
                                              fmt::format("<span aria-hidden=\"true\">{}</span>"
                                                          "<span class=\"heard\">{}</span>",
                                                          mark_of(counts), html_text(words)),
                                              pictures::outcome_kind(counts)));
}

std::string words_of(const HeatMap& map) {
  std::string red;
  std::size_t number = 0;
  for (const std::string& column : map.columns) {
    if (!map.is_red.at(column)) continue;
    ++number;
    red += (red.empty() ? "" : ", ") + html_text(column);
  }
  const std::string all = fmt::format("{} sampler{}, {} check{}.", grouped(map.rows.size()),
                                      map.rows.size() == 1 ? "" : "s", grouped(map.columns.size()),
                                      map.columns.size() == 1 ? "" : "s");
  if (number == 0) return all + " No check is red.";
  return fmt::format("{} Red {}: {}.", all, number == 1 ? "is" : "are", red);
}

}  // namespace

std::string heat_map_section(const harness::RunRecord& record) {
  HeatMap map = heat_map_of(record);
  if (map.rows.empty()) return "";
  std::string html = "<p class=\"lead\">" + words_of(map) +
                     " Each cell leads to its cases.</p>\n<div class=\"panel\">\n"
                     "<div class=\"scroll\" tabindex=\"0\">\n<table class=\"heat\">\n<thead><tr>"
                     "<td></td>";
  const std::size_t rows = map.rows.size(), columns = map.columns.size();
  map.rows.resize(std::min(rows, kMostRows));
  map.columns.resize(std::min(columns, kMostColumns));
  for (const std::string& column : map.columns) {
    html += fmt::format("<th scope=\"col\"{}><span>{}</span></th>",
                        map.is_red[column] ? " class=\"red\"" : "", html_text(column));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const Row& row : map.rows) {
    html += fmt::format("<tr><th scope=\"row\"><code>{}</code><small>as {}</small></th>",
                        html_text(row.sampler), html_text(row.semantics));
    for (const std::string& column : map.columns) html += cell(row, column);
    html += "</tr>\n";
  }
  html +=
      "</tbody></table>\n</div>\n"
      "<p class=\"legend\"><span>a number: so many failed, or could not be run</span>"
      "<span>? too few draws</span><span>\u2713 passed</span>"
      "<span>\u2013 skipped</span></p>\n</div>\n";
  if (rows > kMostRows || columns > kMostColumns) {
    html += fmt::format("<p>Of {} samplers and {} checks the first; the table has all.</p>\n",
                        grouped(rows), grouped(columns));
  }
  return html;
}

}  // namespace fairdraw::reports::html
