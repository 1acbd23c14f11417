#include "reports/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>

#include "harness/run/evidence/coverage.h"
#include "reports/coverage.h"

namespace fairdraw::reports {

using harness::Verdict;

namespace {

std::string of_cases(std::uint64_t count, std::uint64_t total) {
  return fmt::format("{} of {} case{}", grouped(count), grouped(total), total == 1 ? "" : "s");
}

/// Returns a number of cases with its verb, such as "1 was" or "3 were".
std::string were(std::uint64_t count) { return grouped(count) + (count == 1 ? " was" : " were"); }

/// Returns one verdict for several cases: failed before error before underpowered before passed,
/// and skipped if none was run.
Verdict verdict_of(const harness::Summary& counts) {
  if (counts.failed > 0) return Verdict::failed;
  if (counts.error > 0) return Verdict::error;
  if (counts.underpowered > 0) return Verdict::underpowered;
  return counts.passed > 0 ? Verdict::passed : Verdict::skipped;
}

}  // namespace

bool is_red(const harness::CaseRecord& record) {
  return record.verdict == Verdict::failed || record.verdict == Verdict::error ||
         record.verdict == Verdict::underpowered;
}

harness::Verdict run_verdict(const harness::RunRecord& record) {
  const Verdict verdict = verdict_of(record.summary());
  const bool is_red = verdict == Verdict::failed || verdict == Verdict::error;
  const bool is_whole = record.incomplete.empty() && harness::unmet_requirements(record).empty();
  return is_red || is_whole ? verdict : Verdict::underpowered;
}

std::string run_word(const harness::RunRecord& record) {
  return record.incomplete.empty() ? to_string(run_verdict(record)) : "incomplete";
}

std::string verdict_sentence(const harness::RunRecord& record) {
  if (!record.incomplete.empty()) {
    harness::RunRecord what_was_run = record;
    what_was_run.incomplete.clear();
    return fmt::format("Incomplete: {}. Of the cases that ran: {}", record.incomplete,
                       verdict_sentence(what_was_run));
  }
  const harness::Summary counts = record.summary();
  const std::uint64_t total = record.cases.size();
  std::string sentence;
  switch (run_verdict(record)) {
    case Verdict::failed:
      sentence = of_cases(counts.failed, total) + " failed";
      break;
    case Verdict::error:
      sentence = of_cases(counts.error, total) + " could not be run";
      break;
    case Verdict::underpowered:
      sentence = counts.underpowered > 0
                     ? fmt::format("Nothing failed, but {} had too few draws to decide",
                                   of_cases(counts.underpowered, total))
                     : "Nothing failed, but not every required feature was judged";
      break;
    case Verdict::passed:
      sentence = counts.passed < total ? of_cases(counts.passed, total) + " passed"
                 : total == 1          ? "The only case passed"
                                       : fmt::format("All {} cases passed", grouped(total));
      break;
    case Verdict::skipped:
      if (total == 0) return "Nothing was tested, because there was no case.";
      return fmt::format("Nothing was tested: {} skipped.", were(counts.skipped));
  }
  const Verdict verdict = run_verdict(record);
  if (verdict == Verdict::failed && counts.error > 0) {
    sentence += fmt::format("; {} could not be run", grouped(counts.error));
  }
  if (verdict != Verdict::underpowered && counts.underpowered > 0) {
    sentence += fmt::format("; {} had too few draws to decide", grouped(counts.underpowered));
  }
  if (counts.skipped > 0) sentence += fmt::format("; {} skipped", were(counts.skipped));
  return sentence + ".";
}

std::vector<const harness::CaseRecord*> red_cases(const harness::RunRecord& record) {
  std::vector<const harness::CaseRecord*> cases;
  for (const Verdict verdict : {Verdict::failed, Verdict::error, Verdict::underpowered}) {
    std::set<std::string> checks;
    std::vector<const harness::CaseRecord*> others;
    for (const harness::CaseRecord& one : record.cases) {
      if (one.verdict != verdict) continue;
      (checks.insert(one.check).second ? cases : others).push_back(&one);
    }
    cases.insert(cases.end(), others.begin(), others.end());
  }
  return cases;
}

std::vector<FailureGroup> failure_groups(const harness::RunRecord& record) {
  std::vector<FailureGroup> groups;
  std::set<const harness::CaseRecord*> explained;
  for (const harness::Cause& cause : harness::ranked_causes(record)) {
    FailureGroup& group = groups.emplace_back();
    group.name = harness::cause_of(cause.name);
    group.bug = cause.name;
    group.reason = cause.reason;
    group.is_doubtful = cause.is_doubtful;
    group.text = cause.text;
    for (const std::size_t place : cause.cases) {
      group.cases.push_back(&record.cases[place]);
      explained.insert(&record.cases[place]);
    }
  }
  const std::size_t causes = groups.size();
  for (const char* name : {"no known cause", "could not be run", "too few draws"}) {
    groups.push_back({name, "", "", false, harness::text_of_cause(name), {}});
  }
  for (const harness::CaseRecord* const one : red_cases(record)) {
    if (explained.contains(one)) continue;
    const std::size_t kind = one->verdict == Verdict::failed  ? 0
                             : one->verdict == Verdict::error ? 1
                                                              : 2;
    groups[causes + kind].cases.push_back(one);
  }
  std::erase_if(groups, [](const FailureGroup& group) { return group.cases.empty(); });
  return groups;
}

std::string share_text(const FailureGroup& group, const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  const auto of = [&group](std::uint64_t all, const char* what) {
    return fmt::format("{} of {} {}{}", grouped(group.cases.size()), grouped(all), what,
                       all == 1 ? "" : "s");
  };
  switch (group.cases.front()->verdict) {
    case Verdict::error:
      return of(counts.error, "error");
    case Verdict::underpowered:
      return of(counts.underpowered, "underpowered case");
    default:
      return of(counts.failed, "failed case");
  }
}

std::string headline(const harness::RunRecord& record) {
  if (!record.incomplete.empty()) return verdict_sentence(record);
  const std::vector<FailureGroup> groups = failure_groups(record);
  // In a record of an older fairdraw, a cause may have a name but no sentence.
  const bool is_known =
      !groups.empty() && !groups.front().bug.empty() && groups.front().text.sentence.ends_with('.');
  return is_known ? groups.front().text.sentence : verdict_sentence(record);
}

Proof proof_of(const harness::RunRecord& record) {
  Proof proof;
  if (run_verdict(record) != Verdict::passed) return proof;
  std::uint64_t counted = 0;
  double largest = 0;
  for (const Unnoticed& line : unnoticed(record)) {
    counted += line.cases;
    largest = std::max(largest, line.min_discrepancy);
  }
  const std::uint64_t exact = record.summary().passed - counted;
  if (exact > 0) {
    proof.shown.push_back(fmt::format(
        "Its results in {} case{} equal the results of its definitions, value by value.",
        grouped(exact), exact == 1 ? "" : "s"));
  }
  if (counted > 0) {
    proof.shown.push_back(fmt::format(
        "Its draws in {} case{} have the defined distributions: a distribution that is off by a "
        "total variation of {} would almost certainly have failed in each of these cases.",
        grouped(counted), counted == 1 ? "" : "s", number_text(largest)));
  }
  if (record.error_budget.false_alarm_rate > 0) {
    proof.shown.push_back(
        fmt::format("A right sampler fails such a run with a probability of at most {}.",
                    number_text(record.error_budget.false_alarm_rate)));
  }
  for (const harness::Coverage& coverage : harness::coverage_of(record)) {
    std::string names;
    for (const harness::FeatureCoverage& one : coverage.features) {
      if (!one.judged && !one.claim) names += (names.empty() ? "" : ", ") + one.name;
    }
    if (!names.empty()) {
      proof.not_shown.push_back(
          fmt::format("Features {}: {} does not declare these, or no case needed them.", names,
                      coverage.sampler));
    }
    for (const harness::UnjudgedPlace& place : coverage.places) {
      proof.not_shown.push_back(
          fmt::format("Features {} {}: none of their cases applies to {}.",
                      place.features.empty() ? "of rows" : listed(place.features), place.where,
                      coverage.sampler));
    }
  }
  for (const harness::SmallMistake& one : record.small_mistakes) {
    if (one.needed != 0 && one.needed <= one.draws) continue;
    proof.not_shown.push_back(
        fmt::format("Mistakes as small as \"{}\", which take {} draws to find.", one.mistake,
                    needed_text(one)));
    break;
  }
  if (!record.selection.empty()) {
    proof.not_shown.push_back(
        fmt::format("Cases that were not chosen: the choice was \"{}\".", record.selection));
  }
  proof.not_shown.push_back(
      fmt::format("Rows, sizes and parameters that no case of the suite {} has.", record.suite));
  return proof;
}

std::string seen_text(const harness::SamplerRecord& sampler) {
  if (!sampler.seen) return "";
  std::string text;
  for (const harness::SeenDefinition& one : sampler.seen->differences) {
    text += fmt::format("{}{}: {}, where {} has {}", text.empty() ? "" : "; ", one.meaning,
                        one.values.empty() ? "no definition fits" : one.values.front(),
                        sampler.semantics, one.declared);
  }
  return fmt::format("closest to profile {}{}{}", sampler.seen->closest, text.empty() ? "" : ". ",
                     text);
}

std::vector<const harness::CaseRecord*> watched_cases(const harness::RunRecord& record) {
  std::vector<const harness::CaseRecord*> cases;
  for (const harness::CaseRecord& one : record.cases) {
    if (!one.watch.empty()) cases.push_back(&one);
  }
  return cases;
}

std::string grouped(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::min(std::round(seconds), 1e15));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", grouped(whole / 3600), whole / 60 % 60);
}

std::string start_of(const harness::RunRecord& record) {
  const auto found = record.environment.find("started");
  if (found == record.environment.end()) return "";
  // Merged shards join their start times by "; "; the run began at the earliest time.
  std::string first;
  for (std::string_view rest = found->second; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(';'));
    if (first.empty() || one < first) first = one;
    rest.remove_prefix(std::min(one.size() + 2, rest.size()));
  }
  return first;
}

std::string date_text(const harness::RunRecord& record) {
  static constexpr const char* kMonths[] = {"January",   "February", "March",    "April",
                                            "May",       "June",     "July",     "August",
                                            "September", "October",  "November", "December"};
  std::string start = start_of(record);
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  const int read =
      std::sscanf(start.c_str(), "%4d-%2d-%2dT%2d:%2d", &year, &month, &day, &hour, &minute);
  if (read != 5 || month < 1 || month > 12) return start;
  return fmt::format("{} {} {}, {:02}:{:02} UTC", day, kMonths[month - 1], year, hour, minute);
}

std::string needed_text(const harness::SmallMistake& mistake) {
  return mistake.needed == 0 ? "more than 10^12" : grouped(mistake.needed);
}

std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

std::vector<Unnoticed> unnoticed(const harness::RunRecord& record) {
  std::vector<Unnoticed> lines;
  for (const harness::CaseRecord& one : record.cases) {
    if (one.verdict != Verdict::passed || !one.min_discrepancy) continue;
    auto line = std::find_if(lines.begin(), lines.end(), [&one](const Unnoticed& known) {
      return known.sampler == one.sampler && known.check == one.check;
    });
    if (line == lines.end()) line = lines.insert(line, {one.sampler, one.check, 0, 0});
    ++line->cases;
    line->min_discrepancy = std::max(line->min_discrepancy, *one.min_discrepancy);
  }
  return lines;
}

}  // namespace fairdraw::reports
