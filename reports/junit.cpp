#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "reports/escape.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

using harness::Verdict;

/// Underpowered counts as a failure: JUnit knows no other red that is not the harness's own.
struct Counts {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;

  void add(const harness::CaseRecord& record) {
    ++tests;
    failures += record.verdict == Verdict::failed || record.verdict == Verdict::underpowered;
    errors += record.verdict == Verdict::error;
    skipped += record.verdict == Verdict::skipped;
    if (std::isfinite(record.seconds)) seconds += record.seconds;
  }

  std::string attributes() const {
    return fmt::format(R"(tests="{}" failures="{}" errors="{}" skipped="{}" time="{:.3f}")", tests,
                       failures, errors, skipped, seconds);
  }
};

std::string property(std::string_view name, std::string_view value) {
  return fmt::format("<property name=\"{}\" value=\"{}\"/>\n", xml_text(name), xml_text(value));
}

std::string property(std::string_view name, const std::optional<double>& value) {
  return value ? property(name, fmt::format("{}", *value)) : "";
}

/// What the evidence says in a few words: each as a property of its own, so that a CI system's
/// searches find it.
std::string evidence_properties(const harness::Evidence& evidence) {
  const auto text = [](std::string_view name, std::string_view value) {
    return value.empty() ? "" : property(name, value);
  };
  std::string xml = text("observed", evidence.observed) + text("expected", evidence.expected) +
                    text("smallest_case", evidence.smallest);
  if (evidence.effect) {
    xml += text("effect", evidence.effect->name) +
           property("effect_value", std::optional(evidence.effect->value)) +
           property("effect_low", std::optional(evidence.effect->low)) +
           property("effect_high", std::optional(evidence.effect->high));
  }
  if (evidence.decisive) {
    xml += text("decisive_statistic", evidence.decisive->statistic) +
           property("decisive_p_value", evidence.decisive->p_value) +
           property("decisive_log10_e", evidence.decisive->log10_e) +
           property("decisive_level", std::optional(evidence.decisive->level));
  }
  for (const harness::Suspect& suspect : evidence.suspects) xml += text("suspect", suspect.bug);
  return xml;
}

/// The element that says why the case did not pass; empty where it did.
std::string outcome(const harness::CaseRecord& record) {
  const std::string message = xml_text(record.message);
  const std::string verdict = to_string(record.verdict);
  const std::string body = record.replay.empty() ? "" : "replay: " + xml_text(record.replay);
  switch (record.verdict) {
    case Verdict::passed:
      return "";
    case Verdict::skipped:
      return fmt::format("<skipped message=\"{}\"/>\n", message);
    case Verdict::failed:
    case Verdict::underpowered:
      return fmt::format("<failure type=\"{}\" message=\"{}\">{}</failure>\n", verdict, message,
                         body);
    case Verdict::error:
      break;
  }
  return fmt::format("<error type=\"{}\" message=\"{}\">{}</error>\n", verdict, message, body);
}

/// What was suspicious and not confirmed, in the element that runners have for a test that failed
/// once and then passed (Surefire's flakyFailure): no failure, and not hidden either.
std::string watch(const harness::CaseRecord& record) {
  if (record.watch.empty()) return "";
  return fmt::format("<flakyFailure type=\"watch\" message=\"{}\"/>\n", xml_text(record.watch));
}

std::string testcase(const harness::CaseRecord& record) {
  return fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n",
                     xml_text(record.sampler), xml_text(record.id),
                     std::isfinite(record.seconds) ? record.seconds : 0.0) +
         "<properties>\n" + property("check", record.check) +
         property("semantics", record.semantics) +
         (record.filter.empty() ? "" : property("filter", record.filter)) +
         property("draws", std::to_string(record.draws)) + property("p_value", record.p_value) +
         property("min_discrepancy", record.min_discrepancy) +
         (record.evidence ? evidence_properties(*record.evidence) : "") + "</properties>\n" +
         outcome(record) + watch(record) + "</testcase>\n";
}

}  // namespace

std::string to_junit_xml(const harness::RunRecord& record) {
  // A sampler that ran no case is a testsuite too, an empty one: it must not look as if it passed
  // by not being there.
  std::vector<harness::SamplerRecord> samplers = record.samplers;
  for (const harness::CaseRecord& one : record.cases) {
    const bool known = std::any_of(samplers.begin(), samplers.end(), [&one](const auto& sampler) {
      return sampler.name == one.sampler;
    });
    if (!known) samplers.push_back({one.sampler, "", one.semantics});
  }

  Counts total;
  std::string body;
  for (const harness::SamplerRecord& sampler : samplers) {
    Counts counts;
    std::string cases;
    for (const harness::CaseRecord& one : record.cases) {
      if (one.sampler != sampler.name) continue;
      counts.add(one);
      total.add(one);
      cases += testcase(one);
    }
    body += fmt::format("<testsuite name=\"{}\" {}>\n<properties>\n", xml_text(sampler.name),
                        counts.attributes()) +
            property("version", sampler.version) + property("semantics", sampler.semantics) +
            property("suite", record.suite) + property("shard", record.shard) +
            property("seed", std::to_string(record.seed)) +
            property("seed_source", record.seed_source) +
            (record.commit.empty() ? "" : property("commit", record.commit)) + "</properties>\n" +
            cases + "</testsuite>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"fairdraw\" " +
         total.attributes() + ">\n" + body + "</testsuites>\n";
}

}  // namespace fairdraw::reports
