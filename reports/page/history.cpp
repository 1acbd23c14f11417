// Earlier runs: a strip of bars at the top of the page, and a table of what changed from one to the
// next.
#include <fmt/format.h>

#include <algorithm>

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

std::string change_item(const VerdictChange& change, const harness::RunRecord& now, bool is_now) {
  const std::string what = fmt::format("<code>{}</code> on <code>{}</code>", html_text(change.id),
                                       html_text(change.sampler));
  std::string link = what;
  if (is_now) {
    for (const harness::CaseRecord& one : now.cases) {
      if (one.id != change.id || one.sampler != change.sampler) continue;
      if (is_red(one)) link = fmt::format("<a href=\"#{}\">{}</a>", anchor_of(one), what);
      break;
    }
  }
  const auto word = [](const std::optional<harness::Verdict>& verdict) {
    return verdict ? verdict_badge(*verdict) : std::string("absent");
  };
  return fmt::format("<li>{}: {} \u2192 {}</li>\n", link, word(change.base), word(change.head));
}

/// What is different from the run before.
std::string changes_of(const Run& before, const Run& run) {
  const Comparison comparison = compare(*before.record, *run.record);
  if (comparison.compared == 0) return "nothing to compare with";
  if (comparison.verdicts.empty()) return "no verdict changed";
  std::size_t worse = 0;
  std::string list;
  for (std::size_t i = 0; i < comparison.verdicts.size(); ++i) {
    worse += comparison.verdicts[i].regression;
    if (i < kMostChanges) list += change_item(comparison.verdicts[i], *run.record, run.is_this);
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
  std::string html =
      "<div class=\"panel runs\">\n" + table_head("", {"Run", "Verdict", "Commit", "#Red", "#Cases",
                                                       "#Time", "Against the run before"});
  for (std::size_t i = runs.size(); i-- > 0;) {
    html += row_of(runs[i], i == 0 ? "" : changes_of(runs[i - 1], runs[i]));
  }
  html.append(kTableEnd);
  if (extras.history.size() > kMostRuns) {
    html += fmt::format("<p>The newest {} of {} earlier runs.</p>\n", kMostRuns,
                        grouped(extras.history.size()));
  }
  return html + "</div>\n";
}

}  // namespace fairdraw::reports::html
