// Writes a comparison as Markdown, HTML and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "reports/compare.h"
#include "reports/escape.h"
#include "reports/evidence_json.h"
#include "reports/page/template.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

using harness::Verdict;

std::string verdict_text(const std::optional<Verdict>& verdict) {
  return verdict ? to_string(*verdict) : "absent";
}

std::string headline(const Comparison& comparison) {
  const std::uint64_t worse = comparison.regressions(), all = comparison.changes();
  if (worse == 0 && comparison.incomplete) {
    return fmt::format(
        "The head is incomplete: cases that it lacks were not compared. {} compared.",
        grouped(comparison.compared));
  }
  if (comparison.compared == 0) {
    return fmt::format(
        "Nothing was compared: base and head have nothing in common{}{}.{}",
        comparison.apart.empty() ? "" : ": ", comparison.apart,
        worse == 0 ? "" : fmt::format(" {} regression{}.", grouped(worse), worse == 1 ? "" : "s"));
  }
  if (all == 0) {
    return fmt::format("No change in {} compared.", grouped(comparison.compared));
  }
  const std::uint64_t others = all - worse - comparison.fixed();
  return fmt::format(
      "{} fixed, {} regressed{} in {} compared.", grouped(comparison.fixed()), grouped(worse),
      others == 0 ? ""
                  : fmt::format(", {} other change{}", grouped(others), others == 1 ? "" : "s"),
      grouped(comparison.compared));
}

/// Returns a sentence such as "plugin:./new.so is compared with plugin:./old.so" for each pair
/// whose names differ.
std::vector<std::string> pair_sentences(const Comparison& comparison) {
  std::vector<std::string> sentences;
  for (const auto& [base, head] : comparison.paired) {
    sentences.push_back(fmt::format("{} of the head is compared with {} of the base", head, base));
  }
  return sentences;
}

std::string effect_text(const harness::Effect& effect) {
  return fmt::format("{:.4g} [{:.4g}, {:.4g}]", effect.value, effect.low, effect.high);
}

/// The cells of a table row for one change.
struct Row {
  bool regression = false;
  std::string what, sampler, base, head, note;
  bool fixed = false;

  const char* word() const { return regression ? "worse" : fixed ? "fixed" : "changed"; }
};

std::vector<Row> rows_of(const Comparison& comparison) {
  std::vector<Row> rows;
  // Features come first, because one feature stands for many skipped cases.
  for (const FeatureChange& change : comparison.features) {
    const std::string note =
        change.gained          ? "is judged now"
        : change.lacks.empty() ? "is no longer judged"
                               : fmt::format("is no longer judged: the sampler does not declare {}",
                                             fmt::join(change.lacks, ", "));
    rows.push_back({change.regression, "feature " + change.name, change.sampler,
                    fmt::format("{} cases ran", grouped(change.base)),
                    fmt::format("{} cases ran", grouped(change.head)), note});
  }
  for (const VerdictChange& change : comparison.verdicts) {
    rows.push_back({change.regression, change.id, change.sampler, verdict_text(change.base),
                    verdict_text(change.head), change.message, change.fixed});
  }
  for (const EffectChange& change : comparison.effects) {
    rows.push_back({change.regression, change.id, change.sampler, effect_text(change.base),
                    effect_text(change.head), change.head.name});
  }
  for (const SpeedChange& change : comparison.speeds) {
    rows.push_back({change.regression,
                    change.name,
                    {},
                    fmt::format("{:.4g} {}", change.base, change.unit),
                    fmt::format("{:.4g} {}", change.head, change.unit),
                    fmt::format("{:+.1f} %", 100 * (change.head / change.base - 1))});
  }
  return rows;
}

std::string cell(const std::string& text) {
  return text.empty() ? std::string() : markdown_cell_code(text);
}

}  // namespace

std::string to_terminal(const Comparison& comparison, bool colours) {
  constexpr std::size_t kMaxRows = 60;
  const auto coloured = [colours](const std::string& text, int colour) {
    return colours ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : text;
  };
  std::string text = coloured(terminal_text(headline(comparison)), 1) + "\n";
  text += fmt::format("  base  {}\n  head  {}\n", terminal_text(comparison.base),
                      terminal_text(comparison.head));
  for (const std::string& pair : pair_sentences(comparison)) {
    text += fmt::format("  note  {}\n", terminal_text(pair));
  }
  const std::vector<Row> rows = rows_of(comparison);
  for (std::size_t i = 0; i < std::min(rows.size(), kMaxRows); ++i) {
    const Row& row = rows[i];
    const std::string word = fmt::format("{:<7}", row.word());
    text += fmt::format("{}  {}{}{}: {}, now {}{}{}\n",
                        row.regression ? coloured(word, 31)
                        : row.fixed    ? coloured(word, 32)
                                       : word,
                        terminal_text(row.sampler), row.sampler.empty() ? "" : "  ",
                        terminal_text(row.what), terminal_text(row.base), terminal_text(row.head),
                        row.note.empty() ? "" : ": ", terminal_text(row.note));
  }
  if (rows.size() > kMaxRows) {
    text += fmt::format("and {} more; --markdown, --html and --json list all changes\n",
                        grouped(rows.size() - kMaxRows));
  }
  return text;
}

std::string to_markdown(const Comparison& comparison) {
  constexpr std::size_t kLongest = std::size_t{60} * 1024;
  constexpr std::size_t kRoom = 200;  // room for the line that says how much was left out
  std::string text =
      fmt::format("### fairdraw: {}\n\n{} → {}\n", markdown_text(headline(comparison)),
                  markdown_text(comparison.base), markdown_text(comparison.head));
  for (const std::string& pair : pair_sentences(comparison)) {
    text += fmt::format("\n{}.\n", markdown_text(pair));
  }
  const std::vector<Row> rows = rows_of(comparison);
  if (rows.empty()) return text;
  text += "\n| | what | sampler | base | head | |\n|---|---|---|---|---|---|\n";
  std::size_t shown_rows = 0;
  for (const Row& row : rows) {
    const std::string line = fmt::format("| {} | {} | {} | {} | {} | {} |\n",
                                         row.regression ? "**worse**"
                                         : row.fixed    ? "fixed"
                                                        : "",
                                         cell(row.what), cell(row.sampler), markdown_text(row.base),
                                         markdown_text(row.head), markdown_text(row.note));
    if (text.size() + line.size() + kRoom > kLongest) break;
    text += line;
    ++shown_rows;
  }
  if (shown_rows < rows.size()) {
    text +=
        fmt::format("\n{} more changes are not shown here.\n", grouped(rows.size() - shown_rows));
  }
  return text;
}

std::string to_html(const Comparison& comparison) {
  std::string text;
  for (const std::string& pair : pair_sentences(comparison)) {
    text += fmt::format("<p class=\"note\">{}.</p>\n", html_text(pair));
  }
  const std::vector<Row> rows = rows_of(comparison);
  if (!rows.empty()) {
    text +=
        "<div class=\"panel scroll\" role=\"region\" aria-label=\"Changes\" "
        "tabindex=\"0\"><table><caption>Changes</caption><thead><tr><th "
        "scope=\"col\">Change</th><th scope=\"col\">What</th><th scope=\"col\">Sampler</th><th "
        "scope=\"col\">Base</th><th scope=\"col\">Head</th><th "
        "scope=\"col\">Note</th></tr></thead>\n<tbody>\n";
    for (const Row& row : rows) {
      text += fmt::format(
          "<tr><td class=\"verdict {}\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td>{}</td></tr>\n",
          row.regression ? "failed"
          : row.fixed    ? "passed"
                         : "skipped",
          row.word(), html_text(row.what), html_text(row.sampler), html_text(row.base),
          html_text(row.head), html_text(row.note));
    }
    text += "</tbody></table></div>\n";
  }
  return page::filled(
      page::kComparisonHtml,
      {{"style", std::string(page::kPageCss)},
       {"verdict", comparison.regressions() > 0  ? "failed"
                   : comparison.says_something() ? "passed"
                                                 : "underpowered"},
       {"sentence", html_text(headline(comparison))},
       {"facts", fmt::format("<div><dt>Base</dt><dd>{}</dd></div>\n<div><dt>Head</dt><dd>{}</dd>"
                             "</div>\n",
                             html_text(comparison.base), html_text(comparison.head))},
       {"body", text}});
}

std::string to_json(const Comparison& comparison) {
  Json json = {{"base", comparison.base},     {"head", comparison.head},
               {"paired", Json::array()},     {"compared", comparison.compared},
               {"fixed", comparison.fixed()}, {"regressions", comparison.regressions()},
               {"verdicts", Json::array()},   {"effects", Json::array()},
               {"speeds", Json::array()},     {"features", Json::array()}};
  for (const auto& [before, after] : comparison.paired) {
    json["paired"].push_back({{"base", before}, {"head", after}});
  }
  for (const VerdictChange& change : comparison.verdicts) {
    json["verdicts"].push_back({{"id", change.id},
                                {"sampler", change.sampler},
                                {"base", change.base ? Json(to_string(*change.base)) : Json()},
                                {"head", change.head ? Json(to_string(*change.head)) : Json()},
                                {"message", change.message},
                                {"replay", change.replay},
                                {"regression", change.regression}});
  }
  for (const EffectChange& change : comparison.effects) {
    json["effects"].push_back({{"id", change.id},
                               {"sampler", change.sampler},
                               {"base", object_json(change.base, effect_fields)},
                               {"head", object_json(change.head, effect_fields)},
                               {"regression", change.regression}});
  }
  for (const SpeedChange& change : comparison.speeds) {
    json["speeds"].push_back({{"name", change.name},
                              {"unit", change.unit},
                              {"base", written(change.base)},
                              {"head", written(change.head)},
                              {"regression", change.regression}});
  }
  for (const FeatureChange& change : comparison.features) {
    json["features"].push_back({{"name", change.name},
                                {"sampler", change.sampler},
                                {"base", change.base},
                                {"head", change.head},
                                {"change", change.gained ? "gained" : "lost"},
                                {"lacks", change.lacks},
                                {"regression", change.regression}});
  }
  return dump(json, 2) + "\n";
}

}  // namespace fairdraw::reports
