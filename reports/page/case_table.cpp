// All cases: as data for the page's script, and as plain rows for a reader without it.
//
// A table of 10^5 rows takes a browser seconds to lay out, and its markup is three times as large
// as what it says. So the cases are compact JSON, of which the script shows a page of rows at a
// time; the plain rows are in <noscript>, which a browser with script does not even parse.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/escape.h"
#include "reports/page/parts.h"
#include "reports/page/template.h"

namespace fairdraw::reports::html {
namespace {

// Plain rows: at some 170 bytes each under a megabyte.
constexpr std::size_t kMaxPlainRows = 5000;
// With more cases than that, the data leave out the measures, which are most of a statistical
// case's bytes; report.json has them.
constexpr std::size_t kMaxCasesWithMeasures = 10'000;

/// JSON values that many cases share, each stored once: in the order in which they appear.
class Dictionary {
 public:
  std::size_t index(const std::string& json) {
    const auto [at, is_new] = index_.emplace(json, index_.size());
    if (is_new) list_ += (list_.empty() ? "" : ",") + json;
    return at->second;
  }
  std::string json() const { return "[" + list_ + "]"; }

 private:
  std::map<std::string, std::size_t> index_;
  std::string list_;
};

std::string number(const std::optional<double>& value) {
  // Of what is not finite, JSON has nothing.
  return value && std::isfinite(*value) ? fmt::format("{:.4g}", *value) : "null";
}

/// `text` as a JSON array: strings, and `mark` for each occurrence of `part`.
void append_parts(std::string& json, std::string_view text, std::string_view part, int mark) {
  const auto append = [&json](const std::string& element) {
    json += (json.size() > 1 ? "," : "") + element;
  };
  for (std::size_t at = part.empty() ? text.npos : text.find(part); at != text.npos;
       at = text.find(part)) {
    if (at > 0) append(script_string(text.substr(0, at)));
    append(std::to_string(mark));
    text.remove_prefix(at + part.size());
  }
  if (!text.empty()) append(script_string(text));
}

/// A replay line says its case (0) and sampler (1), which the row has already: what is left is the
/// same for all cases of a run.
std::string replay_template(const harness::CaseRecord& record) {
  std::string json = "[";
  const std::string_view line = record.replay;
  const std::size_t id = record.id.empty() ? line.npos : line.find(record.id);
  if (id == line.npos) {
    append_parts(json, line, record.sampler, 1);
  } else {
    append_parts(json, line.substr(0, id), record.sampler, 1);
    append_parts(json, record.id, record.id, 0);
    append_parts(json, line.substr(id + record.id.size()), record.sampler, 1);
  }
  return json + "]";
}

std::string data(const harness::RunRecord& record) {
  Dictionary samplers, checks, filters, replays, names;
  const bool with_measures = record.cases.size() <= kMaxCasesWithMeasures;
  std::string rows;
  for (const harness::CaseRecord& one : record.cases) {
    rows += fmt::format("{}[{},{},{},{},{},{},{},{},{},{},{},{}", rows.empty() ? "" : ",\n",
                        static_cast<int>(one.verdict), samplers.index(script_string(one.sampler)),
                        script_string(one.id), checks.index(script_string(one.check)),
                        filters.index(script_string(one.filter)), one.rows, one.vocab, one.draws,
                        number(one.p_value), number(one.total_variation),
                        number(one.min_discrepancy), replays.index(replay_template(one)));
    std::string measures;
    if (with_measures) {
      for (const auto& [name, value] : one.measures) {
        measures += fmt::format("{}{},{}", measures.empty() ? "" : ",",
                                names.index(script_string(name)), number(value));
      }
    }
    rows += fmt::format(",{}", script_string(one.message));
    if (!one.watch.empty() || !measures.empty()) rows.append(",").append(script_string(one.watch));
    if (!measures.empty()) rows.append(",[").append(measures).append("]");
    rows += ']';
  }
  std::string verdicts;
  for (const harness::Verdict verdict :
       {harness::Verdict::passed, harness::Verdict::failed, harness::Verdict::underpowered,
        harness::Verdict::skipped, harness::Verdict::error}) {
    verdicts += fmt::format("{}\"{}\"", verdicts.empty() ? "" : ",", to_string(verdict));
  }
  return fmt::format(
      "{{\"verdicts\":[{}],\"samplers\":{},\"checks\":{},\"filters\":{},\"replays\":{},"
      "\"measures\":{},\"cases\":[\n{}]}}",
      verdicts, samplers.json(), checks.json(), filters.json(), replays.json(), names.json(), rows);
}

struct Column {
  std::string_view title;    ///< numeric ones begin with '#'
  std::string_view address;  ///< what the page's address calls it
};
constexpr Column kColumns[] = {
    {"Verdict", "verdict"}, {"Sampler", "sampler"},      {"Case", "case"},    {"Check", "check"},
    {"Filter", "filter"},   {"#Rows", "rows"},           {"#Vocab", "vocab"}, {"#Draws", "draws"},
    {"#p value", "p"},      {"#Variation", "variation"}, {"#Finds", "finds"}};

std::string plain_table(const harness::RunRecord& record) {
  std::vector<std::string_view> titles;
  for (const Column& column : kColumns) titles.push_back(column.title);
  std::string html = table_head("", titles);
  const std::size_t count = std::min(record.cases.size(), kMaxPlainRows);
  for (std::size_t i = 0; i < count; ++i) {
    const harness::CaseRecord& one = record.cases[i];
    // HTML does without the end tags of cells and rows, and the page without a third of the table.
    html += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}\n",
                        to_string(one.verdict), html_text(one.sampler), html_text(one.id),
                        html_text(one.check), html_text(one.filter), one.rows, one.vocab, one.draws,
                        number_text(one.p_value), number_text(one.total_variation),
                        number_text(one.min_discrepancy));
  }
  html += kTableEnd;
  if (count < record.cases.size()) {
    html += fmt::format(
        "<p>The first {} of {} cases; report.json has all, and with script this "
        "page has them too.</p>\n",
        grouped(count), grouped(record.cases.size()));
  }
  return html;
}

std::string select(std::string_view id, std::string_view label) {
  return fmt::format(
      "<label>{0}<select id=\"f-{1}\"><option value=\"\">all</option></select></label>\n", label,
      id);
}

}  // namespace

std::string cases_section(const harness::RunRecord& record) {
  std::string head;
  std::size_t index = 0;
  for (const Column& column : kColumns) {
    const bool numeric = column.title.starts_with('#');
    head += fmt::format(
        "<th scope=\"col\"{}><button type=\"button\" data-column=\"{}\" data-name=\"{}\">{}"
        "</button></th>",
        numeric ? " class=\"number\"" : "", index++, column.address,
        column.title.substr(numeric ? 1 : 0));
  }
  return page::filled(page::kCaseTableHtml,
                      {{"selects", select("verdict", "Verdict") + select("sampler", "Sampler") +
                                       select("check", "Check") + select("filter", "Filter")},
                       {"columns", head},
                       {"plain", plain_table(record)},
                       {"data", data(record)}});
}

}  // namespace fairdraw::reports::html
