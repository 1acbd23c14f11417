#include <fmt/format.h>

#include <algorithm>

#include "reports/coverage.h"
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
      "- Seed: {} ({}){}\n"
      "- Cases: {} passed, {} failed, {} underpowered, {} skipped, {} error; {} draws\n"
      "- Error budget: at most {} false alarms per run, {} spent\n",
      samplers.empty() ? "none" : samplers, markdown_text(record.suite),
      markdown_text(record.shard), markdown_text(record.tool_version), record.seed,
      markdown_text(record.seed_source),
      record.commit.empty() ? "" : ", commit " + markdown_code(record.commit), counts.passed,
      counts.failed, counts.underpowered, counts.skipped, counts.error, grouped(record.draws),
      number_text(record.error_budget.false_alarm_rate), number_text(record.error_budget.spent));
}

// GitHub shows at most 1 MiB of a job's summary, and shows nothing of a larger one. The most
// important parts of the summary come first and get their room first; each list says how much of it
// is left out.
constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxRedBytes = kMaxBytes / 2;
constexpr std::size_t kMaxListBytes = kMaxBytes / 8;
constexpr std::size_t kEndBytes = 200;  // more than the length of the line that says how much is
                                        // left out

/// Collects lines as long as they fit within a maximum size. After the first line that does not
/// fit, the class only counts lines.
class Lines {
 public:
  explicit Lines(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void add(const std::string& line) {
    if (left_out_ > 0 || text_.size() + line.size() + kEndBytes > max_bytes_) {
      ++left_out_;
    } else {
      text_ += line;
    }
  }

  /// Returns the lines that fit, and the number of lines that were left out.
  std::string text() const {
    if (left_out_ == 0) return text_;
    return text_ + fmt::format("\n{} more: index.html and report.json list all of them.\n",
                               grouped(left_out_));
  }

 private:
  std::size_t max_bytes_;
  std::string text_;
  std::uint64_t left_out_ = 0;
};

std::string evidence_lines(const harness::Evidence& evidence) {
  std::string text;
  if (!evidence.suspects.empty()) {
    text += fmt::format("  <br>By itself: {}: {}\n", markdown_text(evidence.suspects.front().bug),
                        markdown_text(evidence.suspects.front().reason));
  }
  if (!evidence.observed.empty() || !evidence.expected.empty()) {
    text += fmt::format("  <br>Observed {}; expected {}\n", markdown_text(evidence.observed),
                        markdown_text(evidence.expected));
  }
  if (evidence.effect) {
    text += fmt::format("  <br>Effect: {} {} \\[{}, {}\\]\n", markdown_text(evidence.effect->name),
                        number_text(evidence.effect->value), number_text(evidence.effect->low),
                        number_text(evidence.effect->high));
  }
  return text;
}

/// Returns the lines for a cause: the sampler's bug, the change to make, and the evidence.
std::string cause_lines(const FailureGroup& group, const harness::RunRecord& record) {
  std::string text = fmt::format("- {}: **{}**\n", markdown_text(share_text(group, record)),
                                 markdown_text(group.text.sentence));
  if (!group.text.change.empty()) {
    text += fmt::format("  <br>Change: {}\n", markdown_text(group.text.change));
  }
  if (!group.reason.empty())
    text += fmt::format("  <br>Because: {}\n", markdown_text(group.reason));
  if (!group.bug.empty()) text += fmt::format("  <br>{}\n", markdown_code(group.bug));
  return text;
}

std::string red_case(const harness::CaseRecord& record) {
  std::string text =
      fmt::format("- **{}** {} on {}: {}\n", to_string(record.verdict), markdown_code(record.id),
                  markdown_code(record.sampler), markdown_text(record.message));
  text += evidence_lines(record.evidence);
  if (!record.replay.empty()) text += fmt::format("  <br>{}\n", markdown_code(record.replay));
  return text;
}

std::string coverage_lines(const harness::RunRecord& record) {
  constexpr std::size_t kMaxDeclarations = 8;
  Lines lines(kMaxListBytes);
  for (const std::string& unmet : harness::unmet_requirements(record)) {
    lines.add(fmt::format("- **Required, and missing:** {}\n", markdown_text(unmet)));
  }
  for (const harness::Coverage& coverage : harness::coverage_of(record)) {
    const std::string declare = declare_sentence(coverage, kMaxDeclarations);
    lines.add(fmt::format(
        "- {}: {}.{}\n", markdown_code(coverage.sampler),
        markdown_text(coverage_sentence(coverage, record)),
        declare.empty() ? "" : " To be declared next: " + markdown_text(declare) + "."));
  }
  return lines.text();
}

}  // namespace

std::string to_markdown(const harness::RunRecord& record) {
  const std::string first = headline(record), ended = verdict_sentence(record);
  std::string text =
      fmt::format("# fairdraw: {}\n\n{}{}\n\n", run_word(record),
                  first == ended ? "" : "**" + markdown_text(first) + "** ", markdown_text(ended));
  // Texts of the run itself can also be very long, so they are limited like a list.
  Lines head(kMaxListBytes);
  head.add(facts(record));
  text += head.text();
  Lines notes(kMaxListBytes);
  for (const harness::SamplerRecord& sampler : record.samplers) {
    for (const std::string& note : sampler.notes) {
      notes.add(fmt::format("> - {}: {}\n", markdown_code(sampler.name), markdown_text(note)));
    }
    if (const std::string seen = seen_text(sampler); !seen.empty()) {
      notes.add(fmt::format("> - {}: {}\n", markdown_code(sampler.name), markdown_text(seen)));
    }
  }
  if (const std::string lines = notes.text(); !lines.empty()) {
    text += "\n> [!WARNING]\n" + lines;
  }
  if (const std::string coverage = coverage_lines(record); !coverage.empty()) {
    text += "\n## What was judged\n\n" + coverage;
  }
  if (const Proof proof = proof_of(record); !proof.shown.empty()) {
    Lines lines(kMaxListBytes);
    for (const std::string& one : proof.shown) lines.add(fmt::format("- {}\n", markdown_text(one)));
    lines.add("\nIt does not show:\n\n");
    for (const std::string& one : proof.not_shown) {
      lines.add(fmt::format("- {}\n", markdown_text(one)));
    }
    text += "\n## Conclusions from this run\n\n" + lines.text();
  }
  if (const auto groups = failure_groups(record); !groups.empty()) {
    constexpr std::size_t kMaxCauses = 6;
    Lines lines(kMaxListBytes);
    for (std::size_t i = 0; i < std::min(groups.size(), kMaxCauses); ++i) {
      lines.add(cause_lines(groups[i], record));
    }
    text += "\n## Causes\n\n" + lines.text();
  }
  if (const auto red = red_cases(record); !red.empty()) {
    Lines lines(kMaxRedBytes);
    for (const harness::CaseRecord* one : red) lines.add(red_case(*one));
    text += "\n## What went wrong\n\n" + lines.text();
  }
  if (const auto watched = watched_cases(record); !watched.empty()) {
    Lines lines(kMaxListBytes);
    for (const harness::CaseRecord* one : watched) {
      lines.add(fmt::format("- {} on {}: {}\n", markdown_code(one->id), markdown_code(one->sampler),
                            markdown_text(one->watch)));
    }
    text += fmt::format("\n## Watch\n\n{}\n\n{}", kWatchSentence, lines.text());
  }
  if (const auto unseen = unnoticed(record); !unseen.empty()) {
    Lines lines(kMaxListBytes);
    for (const Unnoticed& line : unseen) {
      lines.add(fmt::format("| {} | {} | {} | {} |\n", markdown_cell_code(line.sampler),
                            markdown_cell_code(line.check), line.cases,
                            number_text(line.min_discrepancy)));
    }
    text +=
        "\n## What could have gone unnoticed\n\n"
        "A smaller deviation than this total variation distance may have passed.\n\n"
        "| sampler | check | cases | total variation |\n|---|---|--:|--:|\n" +
        lines.text();
  }
  if (!record.small_mistakes.empty()) {
    Lines lines(kMaxListBytes);
    for (const harness::SmallMistake& one : record.small_mistakes) {
      lines.add(fmt::format("| {} | {} | {} | {} | {} |\n", markdown_cell_code(one.mistake),
                            number_text(one.discrepancy), markdown_cell_code(one.id),
                            grouped(one.draws), needed_text(one)));
    }
    text += fmt::format(
        "\n{}\n\n| mistake | difference | case | its draws | needed "
        "|\n|---|--:|---|--:|--:|\n{}",
        kSmallMistakesSentence, lines.text());
  }
  text +=
      "\n## All cases\n\n"
      "| verdict | sampler | case | draws | p value | total variation |\n"
      "|---|---|---|--:|--:|--:|\n";
  Lines lines(kMaxBytes - text.size());
  for (const harness::CaseRecord& one : record.cases) {
    lines.add(fmt::format("| {} | {} | {} | {} | {} | {} |\n", to_string(one.verdict),
                          markdown_cell_code(one.sampler), markdown_cell_code(one.id),
                          grouped(one.draws), number_text(one.p_value),
                          number_text(one.total_variation)));
  }
  return text + lines.text();
}

}  // namespace fairdraw::reports
