// index.html: the sections in their order, the contents that lead to them, and the frame of both.
#include <fmt/format.h>

#include "harness/run/evidence/cause_texts.h"
#include "reports/escape.h"
#include "reports/page/parts.h"
#include "reports/page/template.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

struct Section {
  std::string_view id, title;
  std::string html;         ///< without its heading; empty: it is left out
  std::uint64_t count = 0;  ///< of what it holds; 0: none is said
  std::string contents;     ///< entries below its own
};

std::string contents_entry(std::string_view anchor, const std::string& title, std::uint64_t count) {
  return fmt::format("<li><a href=\"#{}\"><span>{}</span>{}</a>", anchor, title,
                     count == 0 ? "" : "<b>" + grouped(count) + "</b>");
}

std::string causes_contents(const harness::RunRecord& record) {
  constexpr std::size_t kMost = 12;
  std::string html;
  std::size_t shown = 0;
  for (const FailureGroup& group : failure_groups(record)) {
    if (++shown > kMost) break;
    html +=
        contents_entry(html::cause_anchor(group.name), html_text(group.name), group.cases.size()) +
        "</li>\n";
  }
  return html.empty() ? "" : "<ol>\n" + html + "</ol>";
}

std::string contents(const std::vector<Section>& sections) {
  std::string html = "<nav class=\"contents\" aria-label=\"Contents\">\n<p>Contents</p>\n<ol>\n";
  for (const Section& one : sections) {
    if (one.html.empty()) continue;
    html += contents_entry(one.id, std::string(one.title), one.count) + one.contents + "</li>\n";
  }
  return html + "</ol>\n</nav>\n";
}

}  // namespace

std::string to_html(const harness::RunRecord& record, const ReportExtras& extras) {
  const std::vector<Section> sections = {
      {"causes", "What went wrong", html::causes_section(record), red_cases(record).size(),
       causes_contents(record)},
      {"watch", "Watch", html::watch_section(record), watched_cases(record).size(), ""},
      {"coverage", "What was judged", html::coverage_section(record), 0, ""},
      {"checks", "Samplers and checks", html::heat_map_section(record), 0, ""},
      {"history", "Earlier runs", html::history_section(record, extras), extras.history.size(), ""},
      {"limits", "What could have gone unnoticed", html::limits_section(record), 0, ""},
      {"overview", "The run as a whole", html::overview_section(record, extras), 0, ""},
      {"cases", "All cases", html::cases_section(record), record.cases.size(), ""},
      {"filters", "By sampler and filter", html::filters_section(record), 0, ""},
      {"evidence", "A closer look at what passed", html::evidence_section(record), 0, ""},
      {"environment", "Where it ran", html::environment_section(record), 0, ""}};
  std::string body;
  for (const Section& one : sections) {
    if (one.html.empty()) continue;
    body += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", one.id, one.title,
                        one.html);
  }
  // The policy is a second lock: escaping failed if it ever matters. It lets one script run, the
  // page's own, named by its hash.
  return page::filled(page::kPageHtml, {{"script_hash", std::string(page::kPageJsHash)},
                                        {"title", run_word(record)},
                                        {"style", std::string(page::kPageCss)},
                                        {"verdict", html::verdict_header(record, extras)},
                                        {"contents", contents(sections)},
                                        {"sections", body},
                                        {"script", std::string(page::kPageJs)}});
}

}  // namespace fairdraw::reports
