// What went wrong, a card a cause: what the sampler does, the picture that shows it best, what to
// change, who had the same bug, a line that repeats it, and behind that all its cases.
//
// The cases are folded: a page with eighty failures of five causes is five cards long.
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/evidence/cause_texts.h"
#include "reports/escape.h"
#include "reports/page/parts.h"
#include "reports/page/template.h"
#include "reports/pictures/pictures.h"

namespace fairdraw::reports::html {
namespace {

constexpr std::size_t kMaxEngines = 4, kMaxEnginesOfOthers = 2;  ///< of the first cause, of others

/// A case's picture that shows its failure best, and how well it does.
struct Picture {
  std::string markup;
  double clarity = 0;
};

Picture picture_of(const harness::CaseRecord& record) {
  const harness::Evidence& evidence = record.evidence;
  if (evidence.boundary) {
    const double clarity = pictures::clarity_of_mask(*evidence.boundary);
    if (clarity > 0) return {pictures::mask_bar(*evidence.boundary), 4 + clarity};
  }
  if (!evidence.profiles.empty()) return {pictures::clearest_residuals(evidence.profiles), 3};
  for (const harness::Dependence& one : evidence.dependence) return {pictures::dependence(one), 2};
  for (const harness::PitEcdf& one : evidence.pit) {
    if (one.distance > one.band) return {pictures::pit(one), 1.5};
  }
  for (const harness::Growth& one : evidence.growth) return {pictures::growth(one), 1};
  return {};
}

struct Example {
  const harness::CaseRecord* record;
  Picture picture;
};

/// The case of a cause that the card shows.
Example example_of(const FailureGroup& group) {
  Example best{group.cases.front(), {}};
  for (const harness::CaseRecord* const one : group.cases) {
    Picture picture = picture_of(*one);
    if (picture.clarity > best.picture.clarity) best = {one, std::move(picture)};
  }
  return best;
}

std::string checks_text(const FailureGroup& group) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> checks;
  for (const harness::CaseRecord* const one : group.cases) {
    if (std::ranges::find(checks, one->check) == checks.end()) checks.push_back(one->check);
  }
  std::string html;
  for (std::size_t i = 0; i < std::min(checks.size(), kMost); ++i) {
    html += (i == 0 ? "by check " : ", ") + ("<b>" + html_text(checks[i]) + "</b>");
  }
  if (checks.size() > kMost) html += fmt::format(" and {} more", checks.size() - kMost);
  return html;
}

/// The observation that points to the cause: some end without a full stop.
std::string because_of(const std::string& reason) {
  if (reason.empty()) return "";
  return "<p class=\"because\">" + html_text(reason) + (reason.ends_with('.') ? "" : ".") +
         "</p>\n";
}

std::string evidence_of(const Example& example) {
  const std::string seen = seen_entries(*example.record);
  const std::string words =
      seen.empty() ? "" : "<div class=\"seen\"><dl>\n" + seen + "</dl></div>\n";
  const std::string caption =
      fmt::format("{} on <code>{}</code>{}{}", html_text(example.record->id),
                  html_text(example.record->sampler), example.record->message.empty() ? "" : ": ",
                  html_text(example.record->message));
  if (example.picture.markup.empty()) {
    return "<p class=\"example\">" + caption + "</p>\n" +
           (words.empty() ? "" : "<div class=\"evidence words\">\n" + words + "</div>\n");
  }
  return "<div class=\"evidence\">\n<figure>\n" + example.picture.markup + "<figcaption>" +
         caption + "</figcaption>\n</figure>\n" + words + "</div>\n";
}

std::string change_of(const harness::CauseText& text) {
  if (text.change.empty()) return "";
  return "<div class=\"change\"><h4>What to change</h4><p>" + html_text(text.change) +
         "</p></div>\n";
}

std::string engines_of(const std::string& bug, std::size_t most) {
  std::string list;
  // A name without details is that of many bugs.
  bool is_same = bug.find(':') != bug.npos;
  for (const harness::EngineBug& one : harness::engine_bugs_like(bug, most)) {
    is_same = is_same && one.suspect == bug;
    list += fmt::format("<li><b>{}</b> <span>{}</span></li>\n", html_text(one.source),
                        html_text(one.wrong));
  }
  if (list.empty()) return "";
  return fmt::format("<div class=\"engines\"><h4>{}</h4><ul>\n{}</ul></div>\n",
                     is_same ? "Engines that had this bug" : "Engines whose bugs looked like this",
                     list);
}

std::string members_of(const FailureGroup& group, const harness::RunRecord& record,
                       std::size_t most) {
  const std::size_t shown = std::min(group.cases.size(), most);
  std::string list;
  for (std::size_t i = 0; i < shown; ++i) {
    const harness::CaseRecord& one = *group.cases[i];
    list += page::filled(page::kCaseHtml, {{"id", anchor_of(one.id, one.sampler)},
                                           {"badge", verdict_badge(one.verdict)},
                                           {"name", html_text(one.id)},
                                           {"sampler", sampler_label(one, record)},
                                           {"said", html_text(one.message)},
                                           {"body", case_body(one)}});
  }
  const std::string count = grouped(group.cases.size());
  return "<details class=\"members\"><summary>" +
         (group.cases.size() == 1 ? "The case" : "All " + count + " cases") + "</summary>\n" +
         (list.empty() ? "" : "<ul>\n" + list + "</ul>\n") +
         (shown < group.cases.size()
              ? fmt::format("<p>And {} more: {}.</p>\n", grouped(group.cases.size() - shown),
                            show_link({{"verdict", to_string(group.cases.front()->verdict)}},
                                      "all are in the table"))
              : "") +
         "</details>\n";
}

std::string card(const FailureGroup& group, const harness::RunRecord& record, std::size_t most,
                 std::size_t most_engines) {
  const harness::Verdict verdict = group.cases.front()->verdict;
  const std::string bug = group.bug.empty() ? group.name : group.bug;
  const Example example = example_of(group);
  return page::filled(
      page::kCauseHtml,
      {{"verdict", to_string(verdict)},
       {"id", cause_anchor(group.name)},
       {"badge", fmt::format("<span class=\"verdict {}\">{}</span>", to_string(verdict),
                             share_text(group, record))},
       {"name", group.bug.empty() ? "" : "<code>" + html_text(bug) + "</code>"},
       {"checks", checks_text(group)},
       {"sentence", html_text(group.text.sentence)},
       {"because", because_of(group.reason)},
       {"evidence", evidence_of(example)},
       {"change", change_of(group.text)},
       {"engines", engines_of(bug, most_engines)},
       {"replay", example.record->replay.empty() ? "" : replay_line(example.record->replay)},
       {"members", members_of(group, record, most)}});
}

std::string lead(const std::vector<FailureGroup>& groups, const harness::RunRecord& record) {
  const auto causes = static_cast<std::uint64_t>(
      std::ranges::count_if(groups, [](const FailureGroup& one) { return !one.bug.empty(); }));
  const std::uint64_t failed = record.summary().failed;
  if (causes == 0) return "";
  std::string text = fmt::format("{} failed case{} ha{} {}.", grouped(failed),
                                 failed == 1 ? "" : "s", failed == 1 ? "s" : "ve",
                                 causes == 1 ? "one cause" : grouped(causes) + " causes");
  if (causes > 1) text += " What explains most comes first: mend it, and look again.";
  std::string passing;
  for (const CheckOutcomes& check : outcomes_of_checks(record)) {
    if (check.failed > 0 || check.passed == 0) continue;
    passing += (passing.empty() ? "" : ", ") + html_text(check.check);
  }
  if (!passing.empty()) text += " Checks that passed whole: " + passing + ".";
  return "<p class=\"lead\">" + text + "</p>\n";
}

}  // namespace

std::vector<std::size_t> cards_of(const std::vector<FailureGroup>& groups) {
  std::vector<std::size_t> cards;
  std::size_t left = kMaxCards;
  for (const FailureGroup& group : groups) {
    cards.push_back(std::min({left, kMaxCardsOfCause, group.cases.size()}));
    left -= cards.back();
  }
  return cards;
}

std::string causes_section(const harness::RunRecord& record) {
  const std::vector<FailureGroup> groups = failure_groups(record);
  if (groups.empty()) return "";
  std::string html = lead(groups, record);
  const std::vector<std::size_t> cards = cards_of(groups);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    html += card(groups[i], record, cards[i], i == 0 ? kMaxEngines : kMaxEnginesOfOthers);
  }
  return html;
}

}  // namespace fairdraw::reports::html
