#include <fmt/format.h>

#include "reports/escape.h"
#include "reports/html_style.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

std::string entry(std::string_view term, const std::string& html) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_text(term), html);
}

/// A number, where there is one, for the list of a card.
std::string entry(std::string_view term, const std::optional<double>& value) {
  return value ? entry(term, number_text(value)) : "";
}

std::string verdict_cell(harness::Verdict verdict) {
  return fmt::format("<span class=\"verdict {0}\">{0}</span>", to_string(verdict));
}

/// A table's head: numeric columns are named with a leading '#'.
std::string table_head(std::string_view caption, const std::vector<std::string_view>& columns) {
  std::string html = fmt::format(
      "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>", html_text(caption));
  for (std::string_view column : columns) {
    const bool numeric = column.starts_with('#');
    if (numeric) column.remove_prefix(1);
    html += fmt::format("<th scope=\"col\"{}>{}</th>", numeric ? " class=\"number\"" : "",
                        html_text(column));
  }
  return html + "</tr></thead>\n<tbody>\n";
}

constexpr std::string_view kTableEnd = "</tbody></table></div>\n";

std::string number_cell(const std::string& text) {
  return "<td class=\"number\">" + text + "</td>";
}

std::string first_screen(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  std::string samplers;
  for (const harness::SamplerRecord& sampler : record.samplers) {
    samplers += fmt::format("{}<code>{}</code> {} ({})", samplers.empty() ? "" : "<br>",
                            html_text(sampler.name), html_text(sampler.version),
                            html_text(sampler.semantics));
  }
  return fmt::format("<header>\n<h1 class=\"{}\">{}</h1>\n</header>\n",
                     to_string(run_verdict(record)), html_text(verdict_sentence(record))) +
         "<dl>\n" + entry("Samplers", samplers.empty() ? "none" : samplers) +
         entry("Suite",
               fmt::format("{}, shard {}", html_text(record.suite), html_text(record.shard))) +
         entry("Seed", fmt::format("{} ({})", record.seed, html_text(record.seed_source))) +
         entry("Cases", fmt::format("{} passed, {} failed, {} underpowered, {} skipped, {} error",
                                    grouped(counts.passed), grouped(counts.failed),
                                    grouped(counts.underpowered), grouped(counts.skipped),
                                    grouped(counts.error))) +
         entry("Draws", grouped(record.draws)) +
         entry("Error budget", fmt::format("at most {} false alarms a run, {} spent",
                                           number_text(record.error_budget.false_alarm_rate),
                                           number_text(record.error_budget.spent))) +
         "</dl>\n";
}

std::string card(const harness::CaseRecord& record) {
  std::string numbers =
      entry("Sampler", "<code>" + html_text(record.sampler) + "</code>") +
      entry("Semantics", html_text(record.semantics)) + entry("Check", html_text(record.check)) +
      entry("Draws", grouped(record.draws)) + entry("Statistic", record.statistic) +
      entry("Degrees of freedom", record.dof) + entry("p value", record.p_value) +
      entry("Total variation", record.total_variation) +
      entry("Smallest discrepancy found", record.min_discrepancy);
  for (const auto& [name, value] : record.measures) numbers += entry(name, std::optional(value));
  std::string html =
      fmt::format("<article class=\"{}\">\n<h3>{} {}</h3>\n<p>{}</p>\n<dl>\n{}</dl>\n",
                  to_string(record.verdict), verdict_cell(record.verdict), html_text(record.id),
                  html_text(record.message), numbers);
  if (!record.replay.empty()) {
    html += fmt::format("<pre><code>{}</code></pre>\n", html_text(record.replay));
  }
  return html + "</article>\n";
}

std::string red_section(const harness::RunRecord& record) {
  const auto red = red_cases(record);
  if (red.empty()) return "";
  std::string html = "<section>\n<h2>What went wrong</h2>\n";
  for (const harness::CaseRecord* one : red) html += card(*one);
  return html + "</section>\n";
}

std::string watch_section(const harness::RunRecord& record) {
  const auto watched = watched_cases(record);
  if (watched.empty()) return "";
  std::string html = fmt::format("<section>\n<h2>Watch</h2>\n<p>{}</p>\n<ul>\n", kWatchSentence);
  for (const harness::CaseRecord* one : watched) {
    html += fmt::format("<li><code>{}</code> {}: {}</li>\n", html_text(one->sampler),
                        html_text(one->id), html_text(one->watch));
  }
  return html + "</ul>\n</section>\n";
}

std::string unnoticed_section(const harness::RunRecord& record) {
  const auto lines = unnoticed(record);
  if (lines.empty()) return "";
  std::string html =
      "<section>\n<h2>What could have gone unnoticed</h2>\n" +
      table_head("A smaller deviation than this total variation distance may have passed.",
                 {"Sampler", "Check", "#Cases", "#Total variation"});
  for (const Unnoticed& line : lines) {
    html +=
        fmt::format("<tr><td><code>{}</code></td><td>{}</td>{}{}</tr>\n", html_text(line.sampler),
                    html_text(line.check), number_cell(grouped(line.cases)),
                    number_cell(number_text(line.min_discrepancy)));
  }
  return html.append(kTableEnd) + "</section>\n";
}

std::string all_cases_section(const harness::RunRecord& record) {
  std::string html = "<section>\n<h2>All cases</h2>\n" +
                     table_head("The p value is Pearson's, reported where it does not decide too.",
                                {"Verdict", "Sampler", "Case", "Check", "#Rows", "#Vocab", "#Draws",
                                 "#p value", "#Total variation", "#Smallest found"});
  for (const harness::CaseRecord& one : record.cases) {
    html += fmt::format(
        "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{}</td>{}{}{}{}{}{}</tr>\n",
        verdict_cell(one.verdict), html_text(one.sampler), html_text(one.id), html_text(one.check),
        number_cell(grouped(one.rows)), number_cell(grouped(one.vocab)),
        number_cell(grouped(one.draws)), number_cell(number_text(one.p_value)),
        number_cell(number_text(one.total_variation)),
        number_cell(number_text(one.min_discrepancy)));
  }
  return html.append(kTableEnd) + "</section>\n";
}

std::string environment_section(const harness::RunRecord& record) {
  std::string html = "<section>\n<h2>Where it ran</h2>\n<dl>\n" +
                     entry("fairdraw", html_text(record.tool_version)) +
                     entry("Seconds", number_text(record.seconds));
  for (const auto& [name, value] : record.environment) html += entry(name, html_text(value));
  return html + "</dl>\n</section>\n";
}

}  // namespace

std::string to_html(const harness::RunRecord& record) {
  // The policy is a second lock: escaping failed if it ever matters.
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<title>fairdraw: {}</title>\n<style>{}</style>\n</head>\n<body>\n",
             to_string(run_verdict(record)), kStyle) +
         first_screen(record) + "<main>\n" + red_section(record) + watch_section(record) +
         unnoticed_section(record) + all_cases_section(record) + environment_section(record) +
         "</main>\n</body>\n</html>\n";
}

}  // namespace fairdraw::reports
