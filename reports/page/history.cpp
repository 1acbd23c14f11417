// Earlier runs: a strip of bars at the top of the page, and a table of what changed from one to the
// next.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reports/compare.h"
#include "reports/escape.h"
#include "reports/page/parts.h"

namespace fairdraw::reports::html {
namespace {

constexpr std::size_t kMostRuns = 40;     ///< the newest
constexpr std::size_t kMostChanges = 20;  ///< of one run

struct Run {
  std::string name, page;
  const harness::RunRecord* record;
  bool is_this = false;
};

/// Oldest first, this one last.
std::vector<Run> runs_of(const harness::RunRecord& record, const ReportExtras& extras) {
  std::vector<Run> runs;
  const std::size_t all = extras.history.size();
  for (std::size_t i = all > kMostRuns ? all - kMostRuns : 0; i < all; ++i) {
    const EarlierRun& one = extras.history[i];
    runs.push_back({one.name, one.page, &one.record});
  }
  runs.push_back({"this run", "", &record, true});
  return runs;
}

std::uint64_t red_of(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  return counts.failed + counts.error;
}

std::string name_of(const Run& run) {
  const std::string date = date_text(*run.record);
  return date.empty() ? run.name : date;
}

/// Where the run's page shows the case in full; empty: nowhere. `shown`: of this run's page.
std::string address_of(const VerdictChange& change, const Run& run,
                       const std::set<std::string>& shown) {
  const bool red = change.head && *change.head != harness::Verdict::passed &&
                   *change.head != harness::Verdict::skipped;
  const std::string anchor = anchor_of(change.id, change.sampler);
  if (!red || (run.is_this ? !shown.contains(anchor) : run.page.empty())) return "";
  return run.page + "#" + anchor;
}

std::string change_item(const VerdictChange& change, const Run& run,
                        const std::set<std::string>& shown) {
  const std::string what =
      "<code>" + html_text(change.id) + "</code>" +
      (run.record->samplers.size() > 1 ? " on <code>" + html_text(change.sampler) + "</code>" : "");
  const std::string address = address_of(change, run, shown);
  const auto word = [](const std::optional<harness::Verdict>& verdict) {
    return verdict ? verdict_badge(*verdict) : std::string("absent");
  };
  return fmt::format(
      "<li>{}: {} \u2192 {}</li>\n",
      address.empty() ? what : fmt::format("<a href=\"{}\">{}</a>", html_text(address), what),
      word(change.base), word(change.head));
}

/// The addresses of this page's cases.
std::set<std::string> shown_cases(const harness::RunRecord& record) {
  const std::vector<FailureGroup> groups = failure_groups(record);
  const std::vector<std::size_t> cards = cards_of(groups);
  std::set<std::string> shown;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (std::size_t j = 0; j < cards[i]; ++j) {
      shown.insert(anchor_of(groups[i].cases[j]->id, groups[i].cases[j]->sampler));
    }
  }
  return shown;
}

/// What is different from the run before.
std::string changes_of(const Run& before, const Run& run, const std::set<std::string>& shown) {
  const Comparison comparison = compare(*before.record, *run.record);
  if (comparison.compared == 0) return "nothing to compare with";
  if (comparison.verdicts.empty()) return "no verdict changed";
  std::size_t worse = 0;
  std::string list;
  for (std::size_t i = 0; i < comparison.verdicts.size(); ++i) {
    worse += comparison.verdicts[i].regression;
    if (i < kMostChanges) list += change_item(comparison.verdicts[i], run, shown);
  }
  if (comparison.verdicts.size() > kMostChanges) {
    list += fmt::format("<li>and {} more</li>\n", comparison.verdicts.size() - kMostChanges);
  }
  return fmt::format(
      "<details><summary>{} changed, {} for the worse</summary>\n<ul>\n{}</ul></details>",
      grouped(comparison.verdicts.size()), grouped(worse), list);
}

std::string row_of(const Run& run, const std::string& changes) {
  std::string name = html_text(name_of(run));
  if (!run.page.empty()) name = fmt::format("<a href=\"{}\">{}</a>", html_text(run.page), name);
  if (run.is_this) name += " (this run)";
  return fmt::format("<tr{}><td>{}</td><td>{}</td><td><code>{}</code></td>{}{}{}<td>{}</td></tr>\n",
                     run.is_this ? " class=\"now\"" : "", name,
                     verdict_badge(run_verdict(*run.record)), commit_label(*run.record),
                     number_cell(grouped(red_of(*run.record))),
                     number_cell(grouped(run.record->cases.size())),
                     number_cell(duration_text(run.record->seconds)), changes);
}

}  // namespace

std::string history_strip(const harness::RunRecord& record, const ReportExtras& extras) {
  if (extras.history.empty()) return "";
  const std::vector<Run> runs = runs_of(record, extras);
  constexpr double kStep = 9, kBar = 6, kHeight = 44, kLeast = 5;
  std::uint64_t most = 1;
  std::size_t green = 0;
  for (const Run& run : runs) {
    most = std::max(most, red_of(*run.record));
    green += run_verdict(*run.record) == harness::Verdict::passed;
  }
  std::string bars;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double share = static_cast<double>(red_of(*runs[i].record)) / static_cast<double>(most);
    const double height = kLeast + (kHeight - kLeast) * share;
    bars += fmt::format(
        "<g><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>"
        "<title>{}: {} red</title></g>\n",
        to_string(run_verdict(*runs[i].record)), kStep * static_cast<double>(i), kHeight - height,
        kBar, height, html_text(name_of(runs[i])), grouped(red_of(*runs[i].record)));
  }
  const std::string words = fmt::format(
      "{} runs, this one last: {} passed. A bar's height is how many cases are red; of "
      "this run {}.",
      runs.size(), green, grouped(red_of(record)));
  const double width = kStep * static_cast<double>(runs.size());
  return fmt::format(
      "<a class=\"history\" href=\"#history\"><svg role=\"img\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" aria-label=\"{2}\"><desc>{2}</desc>{3}</svg>"
      "<span>{4} earlier run{5}</span></a>\n",
      width, kHeight, words, bars, grouped(extras.history.size()),
      extras.history.size() == 1 ? "" : "s");
}

std::string history_section(const harness::RunRecord& record, const ReportExtras& extras) {
  if (extras.history.empty()) return "";
  const std::vector<Run> runs = runs_of(record, extras);
  const std::set<std::string> shown = shown_cases(record);
  std::string html =
      "<div class=\"panel runs\">\n" + table_head("", {"Run", "Verdict", "Commit", "#Red", "#Cases",
                                                       "#Time", "Against the run before"});
  for (std::size_t i = runs.size(); i-- > 0;) {
    html += row_of(runs[i], i == 0 ? "" : changes_of(runs[i - 1], runs[i], shown));
  }
  html.append(kTableEnd);
  if (extras.history.size() > kMostRuns) {
    html += fmt::format("<p>The newest {} of {} earlier runs.</p>\n", kMostRuns,
                        grouped(extras.history.size()));
  }
  return html + "</div>\n";
}

}  // namespace fairdraw::reports::html
