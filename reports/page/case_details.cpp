// Everything that is known of one case, the cases to watch, and those that passed and show why.
#include <fmt/format.h>

#include <algorithm>

#include "reports/escape.h"
#include "reports/page/parts.h"
#include "reports/pictures/pictures.h"

namespace fairdraw::reports::html {
namespace {

constexpr std::size_t kMaxWatched = 100;
constexpr std::size_t kMaxEvidence = 40;  ///< passed cases with pictures

std::string pictures_of(const harness::CaseRecord& record) {
  const harness::Evidence& evidence = record.evidence;
  std::string html;
  if (!evidence.profiles.empty()) {
    html += figures(pictures::residuals(evidence.profiles));
    std::string profiles;
    for (const harness::Profile& one : evidence.profiles) profiles += pictures::profile(one);
    html += figures(profiles);
  }
  std::string rest;
  for (const harness::PitEcdf& one : evidence.pit) rest += pictures::pit(one);
  for (const harness::Growth& one : evidence.growth) rest += pictures::growth(one);
  for (const harness::Dependence& one : evidence.dependence) rest += pictures::dependence(one);
  rest += pictures::power(record);
  html += figures(rest);
  if (evidence.boundary) {
    html +=
        figures(pictures::mask_bar(*evidence.boundary)) + pictures::boundary(*evidence.boundary);
  }
  return html;
}

std::string numbers_of(const harness::CaseRecord& record) {
  std::string numbers =
      entry("Check", html_text(record.check)) + entry("Semantics", html_text(record.semantics)) +
      (record.filter.empty() ? "" : entry("Filter", html_text(record.filter))) +
      entry("Rows", grouped(record.rows)) + entry("Vocabulary", grouped(record.vocab)) +
      entry("Draws", grouped(record.draws)) + entry("Statistic", record.statistic) +
      entry("Degrees of freedom", record.dof) + entry("p value", record.p_value) +
      entry("Total variation", record.total_variation) +
      entry("Smallest discrepancy found", record.min_discrepancy);
  for (const auto& [name, value] : record.measures) numbers += entry(name, std::optional(value));
  return "<dl class=\"numbers\">\n" + numbers + "</dl>\n";
}

std::string effect_text(const harness::Effect& effect) {
  std::string html =
      fmt::format("{}: <b>{}</b> [{}, {}]", html_text(effect.name), number_text(effect.value),
                  number_text(effect.low), number_text(effect.high));
  if (effect.confidence > 0) html += fmt::format(" ({:.4g} % interval)", 100 * effect.confidence);
  if (effect.expected) html += fmt::format(", expected {}", number_text(effect.expected));
  return html + pictures::interval(effect);
}

std::string decisive_text(const harness::Decisive& decisive) {
  std::string html = html_text(decisive.statistic) + ": ";
  if (decisive.p_value) {
    html += fmt::format("p = <b>{}</b>, red at {} or less", number_text(decisive.p_value),
                        number_text(decisive.level));
  } else if (decisive.log10_e) {
    html += fmt::format("evidence 10<sup>{:.3g}</sup>, red at {} or more", *decisive.log10_e,
                        number_text(1 / decisive.level));
  } else {
    html += "exact: no chance is involved";
  }
  return html;
}

std::string hints_of(const harness::Evidence& evidence) {
  if (evidence.suspects.empty()) return "";
  const harness::Suspect& first = evidence.suspects.front();
  std::string html = fmt::format("<p class=\"alone\"><b>By itself: {}.</b> {}",
                                 html_text(first.bug), html_text(first.reason));
  for (std::size_t i = 1; i < evidence.suspects.size(); ++i) {
    html += fmt::format("<br>Or: {}. {}", html_text(evidence.suspects[i].bug),
                        html_text(evidence.suspects[i].reason));
  }
  return html + "</p>\n";
}

std::string list_of(const std::string& entries) {
  return entries.empty() ? "" : "<dl>\n" + entries + "</dl>\n";
}

}  // namespace

std::string seen_entries(const harness::CaseRecord& record) {
  const harness::Evidence& evidence = record.evidence;
  if (!has_something(evidence)) {
    return record.p_value ? entry("Evidence", "p = " + number_text(record.p_value)) : "";
  }
  std::string list;
  if (!evidence.observed.empty()) {
    list += entry("Observed", "<b>" + html_text(evidence.observed) + "</b>");
  }
  if (!evidence.expected.empty()) list += entry("Expected", html_text(evidence.expected));
  if (evidence.effect) list += entry("Effect", effect_text(*evidence.effect));
  if (evidence.decisive) list += entry("Evidence", decisive_text(*evidence.decisive));
  if (!evidence.smallest.empty()) list += entry("Smallest case", html_text(evidence.smallest));
  return list;
}

std::string case_body(const harness::CaseRecord& record) {
  std::string html = "<p class=\"message\">" + html_text(record.message) + "</p>\n" +
                     hints_of(record.evidence) + list_of(seen_entries(record));
  if (!record.watch.empty()) html += "<p>Watch: " + html_text(record.watch) + "</p>\n";
  if (!record.replay.empty()) html += replay_line(record.replay);
  return html + pictures_of(record) + numbers_of(record);
}

std::string watch_section(const harness::RunRecord& record) {
  const auto watched = watched_cases(record);
  if (watched.empty()) return "";
  std::string html = fmt::format("<p class=\"lead\">{}</p>\n<ul>\n", kWatchSentence);
  for (std::size_t i = 0; i < std::min(watched.size(), kMaxWatched); ++i) {
    const harness::CaseRecord& one = *watched[i];
    html += fmt::format("<li><code>{}</code> {}: {}</li>\n", html_text(one.sampler),
                        html_text(one.id), html_text(one.watch));
  }
  html += "</ul>\n";
  if (watched.size() > kMaxWatched) {
    html +=
        fmt::format("<p>And {} more, in the table.</p>\n", grouped(watched.size() - kMaxWatched));
  }
  return html;
}

std::string evidence_section(const harness::RunRecord& record) {
  std::string html;
  std::size_t shown = 0;
  for (const harness::CaseRecord& one : record.cases) {
    if (is_red(one) || !has_something(one.evidence) || shown == kMaxEvidence) continue;
    const std::string pictures = pictures_of(one);
    if (pictures.empty()) continue;
    ++shown;
    html += fmt::format(
                "<details class=\"closer\"><summary>{} <span>{}</span> <code>{}</code>"
                "</summary>\n<p class=\"message\">{}</p>\n",
                verdict_badge(one.verdict), html_text(one.id), html_text(one.sampler),
                html_text(one.message)) +
            list_of(seen_entries(one)) + pictures + "</details>\n";
  }
  if (html.empty()) return "";
  return "<p class=\"lead\">Some passed cases keep their evidence, so that a right sampler's "
         "pictures "
         "can be compared with a wrong one's.</p>\n" +
         html;
}

}  // namespace fairdraw::reports::html
