// What was judged: the features of each sampler, and what to declare for the others.
#include "reports/coverage.h"

#include <fmt/format.h>

#include "harness/run/evidence/abilities.h"
#include "reports/escape.h"
#include "reports/page/parts.h"

namespace fairdraw::reports::html {
namespace {

using harness::Coverage;

std::string judged_text(const harness::FeatureCoverage& feature) {
  if (feature.judged) return "judged";
  return feature.claim ? "not claimed" : "<b>not judged</b>";
}

std::string feature_table(const Coverage& coverage) {
  std::string html = table_head(
      "A feature is judged where cases of it ran, and no fewer than were skipped for the want of "
      "it.",
      {"Feature", "What", "Outcome", "#Cases that ran", "#Cases"});
  for (const harness::FeatureCoverage& one : coverage.features) {
    html += fmt::format("<tr><td><code>{}</code></td><td>{}</td><td>{}</td>{}{}</tr>\n",
                        html_text(one.name), html_text(harness::what_is_judged(one.name)),
                        judged_text(one), number_cell(grouped(one.ran)),
                        number_cell(grouped(one.cases)));
  }
  return html.append(kTableEnd);
}

std::string declare_table(const Coverage& coverage) {
  if (coverage.undeclared.empty()) return "";
  std::string html =
      table_head("What the sampler does not declare, and the cases that it would be asked with it.",
                 {"Declare", "#Skipped cases", "#Parts of cases", "Features"});
  for (const harness::Undeclared& one : coverage.undeclared) {
    html += fmt::format("<tr><td><code>{}</code></td>{}{}<td>{}</td></tr>\n",
                        html_text(harness::declaration_of(one.ability, coverage.sampler)),
                        number_cell(grouped(one.skipped)), number_cell(grouped(one.in_part)),
                        html_text(listed(one.features)));
  }
  return html.append(kTableEnd);
}

}  // namespace

std::string coverage_section(const harness::RunRecord& record) {
  std::string html;
  for (const std::string& unmet : harness::unmet_requirements(record)) {
    html += "<p class=\"note\">Required, and missing: " + html_text(unmet) + "</p>\n";
  }
  for (const Coverage& coverage : harness::coverage_of(record)) {
    html += fmt::format(
        "<details class=\"part\"{}><summary><code>{}</code> <span>{}.</span></summary>\n{}{}"
        "</details>\n",
        coverage.not_judged().empty() ? "" : " open", html_text(coverage.sampler),
        html_text(coverage_sentence(coverage, record)), declare_table(coverage),
        feature_table(coverage));
  }
  return html;
}

}  // namespace fairdraw::reports::html
