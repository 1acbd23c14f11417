#include <fmt/format.h>

#include "reports/escape.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

std::string facts(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  std::string samplers;
  for (const harness::SamplerRecord& sampler : record.samplers) {
    samplers += fmt::format("{}{}{}{} ({})", samplers.empty() ? "" : ", ",
                            markdown_code(sampler.name), sampler.version.empty() ? "" : " ",
                            markdown_text(sampler.version), markdown_text(sampler.semantics));
  }
  return fmt::format(
      "- Samplers: {}\n"
      "- Suite: {}, shard {}, fairdraw {}\n"
      "- Seed: {} ({})\n"
      "- Cases: {} passed, {} failed, {} underpowered, {} skipped, {} error; {} draws\n"
      "- Error budget: at most {} false alarms a run, {} spent\n",
      samplers.empty() ? "none" : samplers, markdown_text(record.suite),
      markdown_text(record.shard), markdown_text(record.tool_version), record.seed,
      markdown_text(record.seed_source), counts.passed, counts.failed, counts.underpowered,
      counts.skipped, counts.error, grouped(record.draws),
      number_text(record.error_budget.false_alarm_rate), number_text(record.error_budget.spent));
}

std::string red_case(const harness::CaseRecord& record) {
  std::string text =
      fmt::format("- **{}** {} on {}: {}\n", to_string(record.verdict), markdown_code(record.id),
                  markdown_code(record.sampler), markdown_text(record.message));
  if (!record.replay.empty()) text += fmt::format("  <br>{}\n", markdown_code(record.replay));
  return text;
}

}  // namespace

std::string to_markdown(const harness::RunRecord& record) {
  std::string text = fmt::format("# fairdraw: {}\n\n{}\n\n{}", to_string(run_verdict(record)),
                                 verdict_sentence(record), facts(record));
  if (const auto red = red_cases(record); !red.empty()) {
    text += "\n## What went wrong\n\n";
    for (const harness::CaseRecord* one : red) text += red_case(*one);
  }
  if (const auto watched = watched_cases(record); !watched.empty()) {
    text += fmt::format("\n## Watch\n\n{}\n\n", kWatchSentence);
    for (const harness::CaseRecord* one : watched) {
      text += fmt::format("- {} on {}: {}\n", markdown_code(one->id), markdown_code(one->sampler),
                          markdown_text(one->watch));
    }
  }
  if (const auto lines = unnoticed(record); !lines.empty()) {
    text +=
        "\n## What could have gone unnoticed\n\n"
        "A smaller deviation than this total variation distance may have passed.\n\n"
        "| sampler | check | cases | total variation |\n|---|---|--:|--:|\n";
    for (const Unnoticed& line : lines) {
      text += fmt::format("| {} | {} | {} | {} |\n", markdown_cell_code(line.sampler),
                          markdown_cell_code(line.check), line.cases,
                          number_text(line.min_discrepancy));
    }
  }
  text +=
      "\n## All cases\n\n"
      "| verdict | sampler | case | draws | p value | total variation |\n"
      "|---|---|---|--:|--:|--:|\n";
  for (const harness::CaseRecord& one : record.cases) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} |\n", to_string(one.verdict),
                    markdown_cell_code(one.sampler), markdown_cell_code(one.id), grouped(one.draws),
                    number_text(one.p_value), number_text(one.total_variation));
  }
  return text;
}

}  // namespace fairdraw::reports
