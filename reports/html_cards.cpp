// A card for each case that needs attention, and the pictures of a case.
#include <fmt/format.h>

#include <algorithm>

#include "reports/escape.h"
#include "reports/html_parts.h"
#include "reports/pictures/pictures.h"
#include "reports/wording.h"

namespace fairdraw::reports::html {
namespace {

// With a broken sampler every case is red, and the first hundred say what there is to say. All are
// in the table.
constexpr std::size_t kMaxCards = 100;
constexpr std::size_t kOpenCards = 5;     ///< of them that show their pictures at once
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
  if (evidence.boundary) html += pictures::boundary(*evidence.boundary);
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

std::string evidence_of(const harness::CaseRecord& record) {
  if (!has_something(record.evidence)) {
    return record.p_value
               ? "<dl>\n" + entry("Evidence", "p = " + number_text(record.p_value)) + "</dl>\n"
               : "";
  }
  const harness::Evidence& evidence = record.evidence;
  std::string html;
  if (!evidence.suspects.empty()) {
    const harness::Suspect& first = evidence.suspects.front();
    html += fmt::format("<p class=\"suspect\"><b>Looks like: {}.</b> {}", html_text(first.bug),
                        html_text(first.reason));
    for (std::size_t i = 1; i < evidence.suspects.size(); ++i) {
      html += fmt::format("<br>Or: {}. {}", html_text(evidence.suspects[i].bug),
                          html_text(evidence.suspects[i].reason));
    }
    html += "</p>\n";
  }
  std::string list;
  if (!evidence.observed.empty()) {
    list += entry("Observed", "<b>" + html_text(evidence.observed) + "</b>");
  }
  if (!evidence.expected.empty()) list += entry("Expected", html_text(evidence.expected));
  if (evidence.effect) list += entry("Effect", effect_text(*evidence.effect));
  if (evidence.decisive) list += entry("Evidence", decisive_text(*evidence.decisive));
  if (!evidence.smallest.empty()) list += entry("Smallest case", html_text(evidence.smallest));
  if (!list.empty()) html += "<dl>\n" + list + "</dl>\n";
  return html;
}

std::string card(const harness::CaseRecord& record, bool open) {
  std::string html = fmt::format(
      "<article class=\"card {}\">\n<h3>{} <span>{}</span> <code>{}</code></h3>\n"
      "<p class=\"message\">{}</p>\n",
      to_string(record.verdict), verdict_badge(record.verdict), html_text(record.id),
      html_text(record.sampler), html_text(record.message));
  html += evidence_of(record);
  if (!record.watch.empty()) html += "<p>Watch: " + html_text(record.watch) + "</p>\n";
  if (!record.replay.empty()) html += replay_line(record.replay);
  const std::string pictures = pictures_of(record);
  html += fmt::format("<details{}><summary>{}</summary>\n", open ? " open" : "",
                      pictures.empty() ? "Numbers" : "Pictures and numbers") +
          pictures + numbers_of(record) + "</details>\n";
  return html + "</article>\n";
}

}  // namespace

std::string common_section(const harness::RunRecord& record) {
  constexpr std::size_t kMaxBugs = 4;
  const harness::Summary counts = record.summary();
  if (counts.failed == 0) return "";
  std::string bugs, failing, passing;
  std::size_t shown = 0;
  for (const SuspectedBug& bug : suspected_bugs(record)) {
    if (++shown > kMaxBugs) break;
    bugs += fmt::format("<li><b>{}</b> in {} of {} failed cases. {}</li>\n", html_text(bug.bug),
                        grouped(bug.cases), grouped(counts.failed), html_text(bug.reason));
  }
  for (const CheckOutcomes& check : outcomes_of_checks(record)) {
    if (check.failed > 0) {
      failing +=
          fmt::format("{}<b>{}</b> {} of {}", failing.empty() ? "" : ", ", html_text(check.check),
                      grouped(check.failed), grouped(check.failed + check.passed));
    } else if (check.passed > 0) {
      passing += (passing.empty() ? "" : ", ") + html_text(check.check);
    }
  }
  return "<section class=\"panel common\" id=\"common\">\n<h2>What the failures look like</h2>\n" +
         (bugs.empty() ? "" : "<ol>\n" + bugs + "</ol>\n") + "<dl>\n" + entry("Failed", failing) +
         (passing.empty() ? "" : entry("All passed", passing)) + "</dl>\n</section>\n";
}

std::string red_section(const harness::RunRecord& record) {
  const auto red = red_cases(record);
  if (red.empty()) return "";
  std::string html = "<section id=\"red\">\n<h2>What went wrong</h2>\n";
  for (std::size_t i = 0; i < std::min(red.size(), kMaxCards); ++i) {
    html += card(*red[i], i < kOpenCards);
  }
  if (red.size() > kMaxCards) {
    html += fmt::format("<p>And {} more: <a href=\"#cases\">all are in the table</a>.</p>\n",
                        grouped(red.size() - kMaxCards));
  }
  return html + "</section>\n";
}

std::string watch_section(const harness::RunRecord& record) {
  const auto watched = watched_cases(record);
  if (watched.empty()) return "";
  std::string html =
      fmt::format("<section id=\"watch\">\n<h2>Watch</h2>\n<p>{}</p>\n<ul>\n", kWatchSentence);
  for (std::size_t i = 0; i < std::min(watched.size(), kMaxCards); ++i) {
    const harness::CaseRecord& one = *watched[i];
    html += fmt::format("<li><code>{}</code> {}: {}</li>\n", html_text(one.sampler),
                        html_text(one.id), html_text(one.watch));
  }
  html += "</ul>\n";
  if (watched.size() > kMaxCards) {
    html += fmt::format("<p>And {} more, in the table.</p>\n", grouped(watched.size() - kMaxCards));
  }
  return html + "</section>\n";
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
            evidence_of(one) + pictures + "</details>\n";
  }
  if (html.empty()) return "";
  return "<section id=\"evidence\">\n<h2>A closer look at what passed</h2>\n"
         "<p>Some passed cases keep their evidence, so that a right sampler's pictures can be "
         "compared with a wrong one's.</p>\n" +
         html + "</section>\n";
}

}  // namespace fairdraw::reports::html
