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

std::string testcase(const harness::CaseRecord& record) {
  return fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n",
                     xml_text(record.sampler), xml_text(record.id),
                     std::isfinite(record.seconds) ? record.seconds : 0.0) +
         "<properties>\n" + property("check", record.check) +
         property("semantics", record.semantics) + property("draws", std::to_string(record.draws)) +
         (record.watch.empty() ? "" : property("watch", record.watch)) +
         property("p_value", record.p_value) + property("min_discrepancy", record.min_discrepancy) +
         "</properties>\n" + outcome(record) + "</testcase>\n";
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
            property("seed_source", record.seed_source) + "</properties>\n" + cases +
            "</testsuite>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"fairdraw\" " +
         total.attributes() + ">\n" + body + "</testsuites>\n";
}

}  // namespace fairdraw::reports
