// The first thing that a reader sees: how it ended, and of what, when and how long.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reports/coverage.h"
#include "reports/escape.h"
#include "reports/page/parts.h"
#include "reports/page/template.h"

namespace fairdraw::reports::html {
namespace {

using harness::Verdict;

struct Count {
  Verdict verdict;
  std::uint64_t cases;
};

/// What needs attention comes first.
std::array<Count, 5> counts_of(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  return {{{Verdict::failed, counts.failed},
           {Verdict::error, counts.error},
           {Verdict::underpowered, counts.underpowered},
           {Verdict::passed, counts.passed},
           {Verdict::skipped, counts.skipped}}};
}

std::string tile(const Count& count) {
  const std::string markup =
      fmt::format("<b>{}</b>{}", grouped(count.cases), verdict_badge(count.verdict));
  if (count.cases == 0) return "<li class=\"none\"><div>" + markup + "</div></li>\n";
  const std::string word = to_string(count.verdict);
  return fmt::format("<li class=\"{}\">{}</li>\n", word, show_link({{"verdict", word}}, markup));
}

/// Shares of the verdicts as one bar.
std::string outcome_bar(const harness::RunRecord& record) {
  if (record.cases.empty()) return "";
  constexpr double kWidth = 1000;
  std::string rects;
  std::uint64_t before = 0;
  for (const Count& one : counts_of(record)) {
    if (one.cases == 0) continue;
    const auto at = [&record](std::uint64_t cases) {
      return kWidth * static_cast<double>(cases) / static_cast<double>(record.cases.size());
    };
    rects += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"0\" width=\"{:.1f}\" height=\"10\"/>",
                         to_string(one.verdict), at(before), at(one.cases));
    before += one.cases;
  }
  return fmt::format(
      "<svg class=\"outcome\" role=\"img\" viewBox=\"0 0 {:.0f} 10\" preserveAspectRatio=\"none\" "
      "aria-label=\"Shares of the verdicts. {}\"><desc>{}</desc>{}</svg>\n",
      kWidth, html_text(verdict_sentence(record)), html_text(verdict_sentence(record)), rects);
}

std::string fact(std::string_view term, const std::string& markup) {
  return "<div>" + entry(term, markup) + "</div>\n";
}

std::string facts(const harness::RunRecord& record) {
  std::string samplers;
  for (const harness::SamplerRecord& sampler : record.samplers) {
    samplers += fmt::format("{}<code>{}</code> {} ({})", samplers.empty() ? "" : "<br>",
                            html_text(sampler.name), html_text(sampler.version),
                            html_text(sampler.semantics));
  }
  std::string html = fact(record.samplers.size() == 1 ? "Sampler" : "Samplers",
                          samplers.empty() ? "none" : samplers);
  if (!record.commit.empty()) {
    html += fact("Commit", "<code>" + commit_label(record) + "</code>");
  }
  html += fact("Seed", fmt::format("{} ({})", record.seed, html_text(record.seed_source)));
  html += fact("Draws", grouped(record.draws));
  if (record.shard != "1/1") html += fact("Shard", html_text(record.shard));
  if (!record.selection.empty()) html += fact("Selection", html_text(record.selection));
  if (!record.options.empty()) html += fact("Options", html_text(record.options));
  return html;
}

/// The first thing that a green page has to say besides its colour.
std::string coverage_notes(const harness::RunRecord& record) {
  constexpr std::size_t kMost = 4;  // the section has them all
  std::string html;
  std::size_t shown = 0;
  for (const harness::Coverage& coverage : harness::coverage_of(record)) {
    if (coverage.not_judged().empty() || ++shown > kMost) continue;
    html += fmt::format(
        "<p class=\"note\"><code>{}</code> {}. <a href=\"#coverage\">What to "
        "declare</a></p>\n",
        html_text(coverage.sampler), html_text(coverage_sentence(coverage, record)));
  }
  return html;
}

std::string notes(const harness::RunRecord& record) {
  std::string html = coverage_notes(record);
  for (const harness::SamplerRecord& sampler : record.samplers) {
    for (const std::string& note : sampler.notes) {
      html += fmt::format("<p class=\"note\"><code>{}</code> {}</p>\n", html_text(sampler.name),
                          html_text(note));
    }
  }
  return html;
}

}  // namespace

std::string verdict_header(const harness::RunRecord& record, const ReportExtras& extras) {
  std::string when = fmt::format("<span>{} suite</span>", html_text(record.suite));
  if (const std::string date = date_text(record); !date.empty()) {
    when += "<span>" + html_text(date) + "</span>";
  }
  if (record.seconds > 0) when += "<span>" + duration_text(record.seconds) + "</span>";
  std::string tiles;
  for (const Count& one : counts_of(record)) tiles += tile(one);
  return page::filled(page::kVerdictHtml, {{"verdict", to_string(run_verdict(record))},
                                           {"when", when},
                                           {"sentence", html_text(verdict_sentence(record))},
                                           {"history", history_strip(record, extras)},
                                           {"bar", outcome_bar(record)},
                                           {"tiles", tiles},
                                           {"facts", facts(record)},
                                           {"notes", notes(record)}});
}

}  // namespace fairdraw::reports::html
