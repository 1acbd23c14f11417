#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "reports/coverage.h"
#include "reports/escape.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

using harness::Verdict;

/// Counts of a suite. An underpowered case counts as a failure, because every other JUnit outcome
/// that is not a pass blames the harness.
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
    return fmt::format(R"(tests="{}" failures="{}" errors="{}" time="{:.3f}")", tests, failures,
                       errors, seconds);
  }
};

std::string property(std::string_view name, std::string_view value) {
  return fmt::format("<property name=\"{}\" value=\"{}\"/>\n", xml_text(name), xml_text(value));
}

/// Named facts about a case besides its verdict. In the format that most readers share (Jenkins'
/// junit-10.xsd), a test case has no properties. So the facts are written to the element
/// <system-out> of the test case, which readers show.
class Facts {
 public:
  void add(std::string_view name, std::string_view value) {
    if (!value.empty()) facts_.emplace_back(name, value);
  }
  void add(std::string_view name, const std::optional<double>& value) {
    if (value) facts_.emplace_back(name, fmt::format("{}", *value));
  }

  /// Returns all facts, joined by `separator`.
  std::string text(std::string_view separator) const {
    std::string text;
    for (const auto& [name, value] : facts_) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : separator, name, terminal_text(value));
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> facts_;
};

void add_evidence(Facts& facts, const harness::Evidence& evidence) {
  facts.add("observed", evidence.observed);
  facts.add("expected", evidence.expected);
  facts.add("smallest_case", evidence.smallest);
  if (evidence.effect) {
    facts.add("effect", evidence.effect->name);
    facts.add("effect_value", std::optional(evidence.effect->value));
    facts.add("effect_low", std::optional(evidence.effect->low));
    facts.add("effect_high", std::optional(evidence.effect->high));
  }
  if (evidence.decisive) {
    facts.add("decisive_statistic", evidence.decisive->statistic);
    facts.add("decisive_p_value", evidence.decisive->p_value);
    facts.add("decisive_log10_e", evidence.decisive->log10_e);
    facts.add("decisive_level", std::optional(evidence.decisive->level));
  }
  for (const harness::Suspect& one : evidence.suspects) facts.add("looks_like", one.bug);
}

Facts facts_of(const harness::CaseRecord& record) {
  Facts facts;
  facts.add("check", record.check);
  facts.add("semantics", record.semantics);
  facts.add("filter", record.filter);
  facts.add("draws", std::to_string(record.draws));
  facts.add("p_value", record.p_value);
  facts.add("min_discrepancy", record.min_discrepancy);
  add_evidence(facts, record.evidence);
  return facts;
}

/// Returns the evidence of a case that failed or is to be watched. The evidence is a property of
/// the case's suite, where the format allows properties.
std::string evidence_property(const harness::CaseRecord& record) {
  const bool shown = record.verdict == Verdict::failed || !record.watch.empty();
  return shown ? property("evidence of " + record.id, facts_of(record).text("; ")) : "";
}

/// Returns the element that gives the reason why the case did not pass; empty if it passed.
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

/// Returns a suspicion that was not confirmed, in the element that test runners use for a test that
/// failed once and then passed (Surefire's flakyFailure). So the suspicion is not a failure, but
/// not hidden either.
std::string watch(const harness::CaseRecord& record) {
  if (record.watch.empty()) return "";
  return fmt::format("<flakyFailure type=\"watch\" message=\"{}\"/>\n", xml_text(record.watch));
}

std::string testcase(const harness::CaseRecord& record) {
  return fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n",
                     xml_text(record.sampler), xml_text(record.id),
                     std::isfinite(record.seconds) ? record.seconds : 0.0) +
         outcome(record) + watch(record) + "<system-out>" + xml_text(facts_of(record).text("\n")) +
         "</system-out>\n</testcase>\n";
}

/// Returns the causes why a sampler's cases failed, likeliest first.
std::string cause_properties(const std::vector<FailureGroup>& groups,
                             const harness::RunRecord& record, const std::string& sampler) {
  std::string properties;
  for (const FailureGroup& group : groups) {
    const auto is_its = [&sampler](const harness::CaseRecord* one) {
      return one->sampler == sampler;
    };
    if (group.bug.empty() || std::ranges::none_of(group.cases, is_its)) continue;
    properties +=
        property("cause " + group.bug, fmt::format("{}: {} {}", share_text(group, record),
                                                   group.text.sentence, group.text.change));
  }
  return properties;
}

/// Returns the properties of the run, which every suite repeats.
std::string run_properties(const harness::RunRecord& record) {
  return property("suite", record.suite) + property("shard", record.shard) +
         property("seed", std::to_string(record.seed)) +
         property("seed_source", record.seed_source) +
         (record.commit.empty() ? "" : property("commit", record.commit));
}

/// Returns a problem of the run itself as a test case that belongs to no sampler.
std::string run_testcase(std::string_view name, std::string_view element, std::string_view type,
                         std::string_view message) {
  return fmt::format(
      "<testcase classname=\"fairdraw\" name=\"{}\" time=\"0.000\">\n<{} type=\"{}\" "
      "message=\"{}\"></{}>\n</testcase>\n",
      name, element, type, xml_text(message), element);
}

/// Returns a separate suite for problems of the run itself: an incomplete run is a test that could
/// not be run, and a requirement that was not judged is a failed test. Returns an empty text if the
/// run is complete and every requirement was judged.
std::string run_suite(const harness::RunRecord& record, Counts& total) {
  Counts counts;
  std::string cases;
  if (!record.incomplete.empty()) {
    ++counts.errors;
    cases += run_testcase("the run is whole", "error", "incomplete", record.incomplete);
  }
  const std::vector<std::string> unmet = harness::unmet_requirements(record);
  if (!unmet.empty()) {
    ++counts.failures;
    cases += run_testcase("what is required was judged", "failure", "coverage",
                          fmt::format("{}", fmt::join(unmet, "; ")));
  }
  if (cases.empty()) return "";
  counts.tests = counts.errors + counts.failures;
  total.tests += counts.tests;
  total.errors += counts.errors;
  total.failures += counts.failures;
  return fmt::format("<testsuite name=\"fairdraw\" {} skipped=\"0\">\n<properties>\n",
                     counts.attributes()) +
         run_properties(record) + "</properties>\n" + cases + "</testsuite>\n";
}

/// Returns the features of a sampler that were judged, as properties of its suite.
std::string coverage_properties(const std::vector<harness::Coverage>& of_samplers,
                                const harness::RunRecord& record, const std::string& sampler) {
  for (const harness::Coverage& coverage : of_samplers) {
    if (coverage.sampler != sampler) continue;
    const std::string declare = declare_sentence(coverage, coverage.undeclared.size());
    return property("coverage", coverage_sentence(coverage, record)) +
           (declare.empty() ? "" : property("declare_next", declare));
  }
  return "";
}

}  // namespace

std::string to_junit_xml(const harness::RunRecord& record) {
  // A sampler that ran no case gets an empty testsuite, because its absence would look like a pass.
  std::vector<harness::SamplerRecord> samplers = record.samplers;
  for (const harness::CaseRecord& one : record.cases) {
    const bool known = std::any_of(samplers.begin(), samplers.end(), [&one](const auto& sampler) {
      return sampler.name == one.sampler;
    });
    if (!known) samplers.push_back({one.sampler, "", one.semantics});
  }

  const std::vector<FailureGroup> groups = failure_groups(record);
  const std::vector<harness::Coverage> coverage = harness::coverage_of(record);
  Counts total;
  std::string body = run_suite(record, total);
  for (const harness::SamplerRecord& sampler : samplers) {
    Counts counts;
    std::string cases, evidence;
    for (const harness::CaseRecord& one : record.cases) {
      if (one.sampler != sampler.name) continue;
      counts.add(one);
      total.add(one);
      cases += testcase(one);
      evidence += evidence_property(one);
    }
    body += fmt::format("<testsuite name=\"{}\" {} skipped=\"{}\">\n<properties>\n",
                        xml_text(sampler.name), counts.attributes(), counts.skipped) +
            property("version", sampler.version) + property("semantics", sampler.semantics) +
            run_properties(record) + coverage_properties(coverage, record, sampler.name) +
            cause_properties(groups, record, sampler.name) + evidence + "</properties>\n" + cases +
            "</testsuite>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"fairdraw\" " +
         total.attributes() + ">\n" + body + "</testsuites>\n";
}

}  // namespace fairdraw::reports
