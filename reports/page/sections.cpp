// Pictures over the whole run, what it could have missed, a part for each sampler and filter, and
// where it ran.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/escape.h"
#include "reports/page/parts.h"
#include "reports/pictures/pictures.h"

namespace fairdraw::reports::html {
namespace {

constexpr std::size_t kMaxParts = 400;  ///< samplers x filters; the table has the rest

/// Of one check, or of one filter.
struct Group {
  harness::Summary counts;
  std::uint64_t draws = 0;
  std::optional<double> smallest_found;  ///< the largest over the passed cases

  void add(const harness::CaseRecord& record) {
    count(record.verdict, counts);
    draws += record.draws;
    if (record.verdict == harness::Verdict::passed && record.min_discrepancy) {
      smallest_found = std::max(smallest_found.value_or(0), *record.min_discrepancy);
    }
  }

  std::uint64_t cases() const {
    return counts.passed + counts.failed + counts.underpowered + counts.skipped + counts.error;
  }
};

/// Keys in the order in which they first appear.
template <class Value>
class Ordered {
 public:
  Value& operator[](const std::string& key) {
    const auto [at, is_new] = index_.emplace(key, items.size());
    if (is_new) items.emplace_back(key, Value());
    return items[at->second].second;
  }
  std::vector<std::pair<std::string, Value>> items;

 private:
  std::map<std::string, std::size_t> index_;
};

struct Part {
  Group all;
  Ordered<Group> checks;
};

std::string part(const std::string& sampler, const std::string& filter, const Part& part) {
  const std::string name = filter.empty() ? "no filter named" : html_text(filter);
  std::string html = fmt::format(
      "<details class=\"part\"><summary>{} <b>{}</b> <span>{} cases{}</span></summary>\n",
      verdict_badge(verdict_of(part.all.counts)), name, grouped(part.all.cases()),
      part.all.smallest_found
          ? fmt::format(", finds a total variation of {}", number_text(part.all.smallest_found))
          : "");
  html += table_head("", {"Check", "#Passed", "#Red", "#Skipped", "#Draws", "#Smallest found"});
  for (const auto& [check, group] : part.checks.items) {
    const harness::Summary& counts = group.counts;
    html += fmt::format("<tr><td>{}</td>{}{}{}{}{}</tr>\n", html_text(check),
                        number_cell(grouped(counts.passed)),
                        number_cell(grouped(counts.failed + counts.error + counts.underpowered)),
                        number_cell(grouped(counts.skipped)), number_cell(grouped(group.draws)),
                        number_cell(number_text(group.smallest_found)));
  }
  return html.append(kTableEnd) + "<p>" +
         show_link({{"sampler", sampler}, {"filter", filter}}, "Show them in the table") +
         "</p>\n</details>\n";
}

std::string ledger_panel(const harness::RunRecord& record) {
  const harness::ErrorBudget& budget = record.error_budget;
  std::string html =
      "<div class=\"panel\">\n<h3>Error ledger</h3>\n"
      "<p>A right sampler fails this run with a probability of at most "
      "<b>" +
      number_text(budget.false_alarm_rate) + "</b>.</p>\n<dl>\n" +
      entry("Promised", number_text(budget.false_alarm_rate)) +
      entry("Spent", number_text(budget.spent));
  if (budget.statistical_cases > 0)
    html += entry("Shared by", grouped(budget.statistical_cases) + " cases");
  return html + "</dl>\n</div>\n";
}

std::string unnoticed_panel(const harness::RunRecord& record) {
  const auto lines = unnoticed(record);
  std::string html = "<div class=\"panel\">\n<h3>How small a deviation is found</h3>\n";
  if (lines.empty()) {
    return html +
           "<p>No statistical case passed: of how often tokens are drawn, this run says "
           "nothing.</p>\n</div>\n";
  }
  html += table_head("A smaller deviation than this total variation distance may have passed.",
                     {"Sampler", "Check", "#Cases", "#Total variation"});
  for (const Unnoticed& line : lines) {
    html +=
        fmt::format("<tr><td><code>{}</code></td><td>{}</td>{}{}</tr>\n", html_text(line.sampler),
                    html_text(line.check), number_cell(grouped(line.cases)),
                    number_cell(number_text(line.min_discrepancy)));
  }
  html.append(kTableEnd);
  if (!record.small_mistakes.empty()) {
    html += table_head(kSmallMistakesSentence,
                       {"Mistake", "#Difference", "Case", "#Its draws", "#Needed"});
    for (const harness::SmallMistake& one : record.small_mistakes) {
      html += fmt::format("<tr><td>{}</td>{}<td>{}</td>{}{}</tr>\n", html_text(one.mistake),
                          number_cell(number_text(one.discrepancy)), html_text(one.id),
                          number_cell(grouped(one.draws)), number_cell(needed_text(one)));
    }
    html.append(kTableEnd);
  }
  return html + "</div>\n";
}

}  // namespace

std::string filters_section(const harness::RunRecord& record) {
  Ordered<Ordered<Part>> samplers;
  for (const harness::CaseRecord& one : record.cases) {
    Part& part = samplers[one.sampler][one.filter];
    part.all.add(one);
    part.checks[one.check].add(one);
  }
  if (samplers.items.empty()) return "";
  std::string html;
  std::size_t shown = 0, left = 0;
  for (const auto& [sampler, filters] : samplers.items) {
    if (shown < kMaxParts) html += "<h3><code>" + html_text(sampler) + "</code></h3>\n";
    for (const auto& [filter, one] : filters.items) {
      if (shown == kMaxParts) {
        ++left;
        continue;
      }
      html += part(sampler, filter, one);
      ++shown;
    }
  }
  if (left > 0) html += fmt::format("<p>And {} more, in the table.</p>\n", grouped(left));
  return html;
}

std::string overview_section(const harness::RunRecord& record, const ReportExtras& extras) {
  std::string html = figures(pictures::qq(record) + pictures::power(record));
  if (!extras.conformance.empty()) {
    std::vector<const harness::RunRecord*> records = {&record};
    for (const harness::RunRecord& other : extras.conformance) records.push_back(&other);
    html += "<h3>Beside other runs</h3>\n" + figures(pictures::conformance(records));
  }
  if (!extras.mutants.empty()) {
    html += "<h3>Self-test of the gate</h3>\n" + figures(pictures::kill_matrix(extras.mutants));
  }
  if (!extras.benchmark.empty()) {
    html += "<h3>Speed</h3>\n" + figures(pictures::benchmark_bars(extras.benchmark));
  }
  return html;
}

std::string limits_section(const harness::RunRecord& record) {
  return unnoticed_panel(record) + ledger_panel(record);
}

std::string environment_section(const harness::RunRecord& record) {
  std::string html = "<div class=\"panel\">\n<dl>\n" +
                     entry("fairdraw", html_text(record.tool_version)) +
                     entry("Seconds", number_text(record.seconds));
  for (const auto& [name, value] : record.environment) html += entry(name, html_text(value));
  return html + "</dl>\n</div>\n";
}

}  // namespace fairdraw::reports::html
