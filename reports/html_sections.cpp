// Pictures over the whole run, and a part for each sampler and filter.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/escape.h"
#include "reports/html_parts.h"
#include "reports/pictures/pictures.h"
#include "reports/wording.h"

namespace fairdraw::reports::html {
namespace {

constexpr std::size_t kMaxParts = 400;  ///< samplers x filters; the table has the rest

/// Of one check, or of one filter.
struct Group {
  harness::Summary counts;
  std::uint64_t draws = 0;
  std::optional<double> smallest_found;  ///< the largest over the passed cases

  void add(const harness::CaseRecord& record) {
    switch (record.verdict) {
      case harness::Verdict::passed:
        ++counts.passed;
        break;
      case harness::Verdict::failed:
        ++counts.failed;
        break;
      case harness::Verdict::underpowered:
        ++counts.underpowered;
        break;
      case harness::Verdict::skipped:
        ++counts.skipped;
        break;
      case harness::Verdict::error:
        ++counts.error;
        break;
    }
    draws += record.draws;
    if (record.verdict == harness::Verdict::passed && record.min_discrepancy) {
      smallest_found = std::max(smallest_found.value_or(0), *record.min_discrepancy);
    }
  }

  harness::Verdict verdict() const {
    if (counts.failed > 0) return harness::Verdict::failed;
    if (counts.error > 0) return harness::Verdict::error;
    if (counts.underpowered > 0) return harness::Verdict::underpowered;
    return counts.passed > 0 ? harness::Verdict::passed : harness::Verdict::skipped;
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
      verdict_badge(part.all.verdict()), name, grouped(part.all.cases()),
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
  return html.append(kTableEnd) +
         fmt::format(
             "<p><a class=\"show\" href=\"#cases\" data-sampler=\"{}\" data-filter=\"{}\">"
             "Show them in the table</a></p>\n</details>\n",
             html_text(sampler), html_text(filter));
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
  std::string html = "<section id=\"filters\">\n<h2>By sampler and filter</h2>\n";
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
  return html + "</section>\n";
}

std::string overview_section(const harness::RunRecord& record, const ReportExtras& extras) {
  std::string html = figures(pictures::qq(record) + pictures::power(record));
  std::vector<const harness::RunRecord*> records = {&record};
  for (const harness::RunRecord& other : extras.conformance) records.push_back(&other);
  html += figures(pictures::conformance(records));
  if (!extras.mutants.empty()) {
    html += "<h3>Self-test of the gate</h3>\n" + figures(pictures::kill_matrix(extras.mutants));
  }
  if (!extras.benchmark.empty()) {
    html += "<h3>Speed</h3>\n" + figures(pictures::benchmark_bars(extras.benchmark));
  }
  return html.empty()
             ? ""
             : "<section id=\"overview\">\n<h2>The run as a whole</h2>\n" + html + "</section>\n";
}

}  // namespace fairdraw::reports::html
