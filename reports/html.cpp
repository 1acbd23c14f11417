#include <fmt/format.h>

#include "reports/escape.h"
#include "reports/html_parts.h"
#include "reports/html_script.h"
#include "reports/html_style.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace html {

std::string entry(std::string_view term, const std::string& markup) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_text(term), markup);
}

std::string entry(std::string_view term, const std::optional<double>& value) {
  return value ? entry(term, number_text(value)) : "";
}

std::string verdict_badge(harness::Verdict verdict) {
  return fmt::format("<span class=\"verdict {0}\">{0}</span>", to_string(verdict));
}

std::string table_head(std::string_view caption, const std::vector<std::string_view>& columns) {
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table>\n";
  if (!caption.empty()) html += fmt::format("<caption>{}</caption>\n", html_text(caption));
  html += "<thead><tr>";
  for (std::string_view column : columns) {
    const bool numeric = column.starts_with('#');
    if (numeric) column.remove_prefix(1);
    html += fmt::format("<th scope=\"col\"{}>{}</th>", numeric ? " class=\"number\"" : "",
                        html_text(column));
  }
  return html + "</tr></thead>\n<tbody>\n";
}

std::string number_cell(const std::string& text) {
  return "<td class=\"number\">" + text + "</td>";
}

std::string replay_line(const std::string& replay) {
  return fmt::format(
      "<div class=\"replay\"><pre tabindex=\"0\"><code>{}</code></pre>"
      "<button type=\"button\" class=\"copy\" hidden>Copy</button></div>\n",
      html_text(replay));
}

std::string figures(const std::string& pictures) {
  return pictures.empty() ? "" : "<div class=\"figures\">\n" + pictures + "</div>\n";
}

namespace {

std::string tile(harness::Verdict verdict, std::uint64_t count) {
  const std::string word = to_string(verdict);
  if (count == 0) {
    return fmt::format("<li class=\"none\"><div><b>0</b> {}</div></li>\n", verdict_badge(verdict));
  }
  return fmt::format(
      "<li class=\"{0}\"><a class=\"show\" href=\"#cases\" data-verdict=\"{0}\"><b>{1}</b> "
      "{2}</a></li>\n",
      word, grouped(count), verdict_badge(verdict));
}

std::string facts(const harness::RunRecord& record) {
  std::string samplers;
  for (const harness::SamplerRecord& sampler : record.samplers) {
    samplers += fmt::format("{}<code>{}</code> {} ({})", samplers.empty() ? "" : "<br>",
                            html_text(sampler.name), html_text(sampler.version),
                            html_text(sampler.semantics));
  }
  std::string html = entry("Samplers", samplers.empty() ? "none" : samplers);
  std::string notes;
  for (const harness::SamplerRecord& sampler : record.samplers) {
    for (const std::string& note : sampler.notes) {
      notes += fmt::format("{}<code>{}</code> {}", notes.empty() ? "" : "<br>",
                           html_text(sampler.name), html_text(note));
    }
  }
  if (!notes.empty()) html += entry("Note", "<span class=\"note\">" + notes + "</span>");
  if (!record.commit.empty())
    html += entry("Commit", "<code>" + html_text(record.commit) + "</code>");
  html +=
      entry("Suite", fmt::format("{}, shard {}", html_text(record.suite), html_text(record.shard)));
  if (!record.selection.empty()) html += entry("Selection", html_text(record.selection));
  if (!record.options.empty()) html += entry("Options", html_text(record.options));
  html += entry("Seed", fmt::format("{} ({})", record.seed, html_text(record.seed_source)));
  return html + entry("Draws", grouped(record.draws));
}

std::string ledger(const harness::RunRecord& record) {
  const harness::ErrorBudget& budget = record.error_budget;
  std::string html =
      "<div class=\"panel\">\n<h2>Error ledger</h2>\n"
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
  std::string html =
      "<div class=\"panel\" id=\"unnoticed\">\n<h2>What could have gone unnoticed</h2>\n";
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

std::string first_screen(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  using harness::Verdict;
  const std::string word = to_string(run_verdict(record));
  return fmt::format("<header class=\"{}\">\n<p class=\"brand\">fairdraw</p>\n<h1>{}</h1>\n", word,
                     html_text(verdict_sentence(record))) +
         "<ul class=\"tiles\">\n" + tile(Verdict::passed, counts.passed) +
         tile(Verdict::failed, counts.failed) + tile(Verdict::error, counts.error) +
         tile(Verdict::underpowered, counts.underpowered) + tile(Verdict::skipped, counts.skipped) +
         "</ul>\n<dl>\n" + facts(record) + "</dl>\n</header>\n";
}

std::string environment_section(const harness::RunRecord& record) {
  std::string html = "<section>\n<h2>Where it ran</h2>\n<dl>\n" +
                     entry("fairdraw", html_text(record.tool_version)) +
                     entry("Seconds", number_text(record.seconds));
  for (const auto& [name, value] : record.environment) html += entry(name, html_text(value));
  return html + "</dl>\n</section>\n";
}

}  // namespace
}  // namespace html

std::string to_html(const harness::RunRecord& record, const ReportExtras& extras) {
  // The policy is a second lock: escaping failed if it ever matters. It lets one script run, the
  // page's own, named by its hash.
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'; script-src '{}'\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<title>fairdraw: {}</title>\n<style>{}</style>\n</head>\n<body>\n",
             kScriptHash, run_word(record), kStyle) +
         html::first_screen(record) + "<main>\n" + html::common_section(record) +
         "<section class=\"panels\">\n" + html::unnoticed_panel(record) + html::ledger(record) +
         "</section>\n" + html::red_section(record) + html::watch_section(record) +
         html::overview_section(record, extras) + html::cases_section(record) +
         html::filters_section(record) + html::evidence_section(record) +
         html::environment_section(record) + "</main>\n<script>" + std::string(kScript) +
         "</script>\n</body>\n</html>\n";
}

}  // namespace fairdraw::reports
