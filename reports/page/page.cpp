// Writes index.html: a frame that says how the run ended, and the record as JSON, from which the
// page's script draws everything else. Sentences that also appear in summary.md come from wording.h
// and coverage.h.
#include <map>
#include <tuple>

#include "harness/run/evidence/cause_texts.h"
#include "reports/coverage.h"
#include "reports/escape.h"
#include "reports/evidence_json.h"
#include "reports/page/data.h"
#include "reports/page/template.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

/// number of engines that are named for the first cause, and for the other causes
constexpr std::size_t kMaxEngines = 4, kMaxEnginesOfOthers = 2;
/// Largest numbers of cases with evidence: of failed cases, and of other cases that have pictures.
constexpr std::size_t kMaxRed = 1000, kMaxOthers = 40;

/// Returns JSON in which no text can end its block, and in which no name hides or moves text.
std::string script_json(const Json& json) {
  if (json.is_string()) return script_string(json.get_ref<const std::string&>());
  if (!json.is_structured()) return json.dump();
  std::string text;
  for (const auto& [key, value] : json.items()) {
    if (!text.empty()) text += ',';
    if (json.is_object()) text.append(script_string(key)).append(":");
    text += script_json(value);
  }
  return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

Json group_data(const FailureGroup& group, const harness::RunRecord& record, std::size_t most) {
  Json places = Json::array(), engines = Json::array();
  for (const harness::CaseRecord* const one : group.cases) {
    places.push_back(one - record.cases.data());
  }
  const std::string& bug = group.bug.empty() ? group.name : group.bug;
  // A bug's name without details is shared by many bugs.
  bool is_same = bug.find(':') != bug.npos;
  // A single case can fail by one or two rows, which are no evidence against an engine.
  if (group.cases.size() < 2 || group.is_doubtful) most = 0;
  for (const harness::EngineBug& one : harness::engine_bugs_like(bug, most)) {
    is_same = is_same && one.suspect == bug;
    engines.push_back(Json::array({one.source, one.wrong}));
  }
  return {{"name", group.name},
          {"bug", group.bug},
          {"share", share_text(group, record)},
          {"sentence", group.text.sentence},
          {"reason", group.reason},
          {"change", group.text.change},
          {"engines", std::move(engines)},
          {"same", is_same},
          {"cases", std::move(places)}};
}

bool has_pictures(const harness::CaseRecord& record) {
  const harness::Evidence& evidence = record.evidence;
  return !evidence.profiles.empty() || !evidence.pit.empty() || !evidence.growth.empty() ||
         !evidence.dependence.empty() || evidence.boundary ||
         (evidence.power && record.min_discrepancy);
}

/// Returns the indices of the cases whose evidence is on the page.
std::set<std::size_t> detailed_cases(const harness::RunRecord& record, const Json& groups) {
  std::set<std::size_t> detailed;
  for (const Json& group : groups) {
    for (const Json& place : group["cases"]) {
      if (detailed.size() < kMaxRed) detailed.insert(place.get<std::size_t>());
    }
  }
  std::size_t others = 0;
  for (std::size_t i = 0; i < record.cases.size() && others < kMaxOthers; ++i) {
    if (is_red(record.cases[i]) || !has_pictures(record.cases[i])) continue;
    detailed.insert(i);
    ++others;
  }
  return detailed;
}

Json coverage_data(const harness::RunRecord& record) {
  Json sentences = Json::array(), what = Json::object();
  for (const harness::Coverage& coverage : harness::coverage_of(record)) {
    sentences.push_back(coverage_sentence(coverage, record));
    for (const harness::FeatureCoverage& one : coverage.features) {
      what[one.name] = harness::what_is_judged(one.name);
    }
  }
  return {{"unmet", harness::unmet_requirements(record)},
          {"sentences", std::move(sentences)},
          {"what", std::move(what)}};
}

Json unnoticed_data(const harness::RunRecord& record) {
  Json lines = Json::array();
  for (const Unnoticed& line : unnoticed(record)) {
    lines.push_back(
        Json::array({line.sampler, line.check, line.cases, written(line.min_discrepancy)}));
  }
  return lines;
}

/// Returns numbers of cases of other runs, by sampler, semantics, check and verdict.
Json conformance_data(const std::vector<harness::RunRecord>& records) {
  Json counts = Json::array();
  std::map<std::tuple<std::string, std::string, std::string, harness::Verdict>, std::size_t> known;
  for (const harness::RunRecord& record : records) {
    for (const harness::CaseRecord& one : record.cases) {
      const auto [at, is_new] =
          known.try_emplace({one.sampler, one.semantics, one.check, one.verdict}, counts.size());
      if (is_new) {
        counts.push_back({{"sampler", one.sampler},
                          {"semantics", one.semantics},
                          {"check", one.check},
                          {"verdict", to_string(one.verdict)},
                          {"cases", 0}});
      }
      Json& cases = counts[at->second]["cases"];
      cases = cases.get<std::size_t>() + 1;
    }
  }
  return counts;
}

std::string page_data(const harness::RunRecord& record, const ReportExtras& extras) {
  Json groups = Json::array(), mutants = Json::array();
  for (const FailureGroup& group : failure_groups(record)) {
    groups.push_back(group_data(group, record, groups.empty() ? kMaxEngines : kMaxEnginesOfOthers));
  }
  for (const MutantRow& row : extras.mutants) {
    mutants.push_back({{"name", row.name}, {"killed", row.killed}, {"checks", row.checks}});
  }
  const Proof proof = proof_of(record);
  const std::set<std::size_t> detailed = detailed_cases(record, groups);
  Json head = record_json(record);
  head.erase("causes");  // the field "groups" already has the causes, with indices instead of names
  head.erase("places");
  head.erase("cases");  // the cases are stored below, as rows of values
  const Json members = {{"record", std::move(head)},
                        {"date", date_text(record)},
                        {"duration", record.seconds > 0 ? duration_text(record.seconds) : ""},
                        {"watch", kWatchSentence},
                        {"mistakes", kSmallMistakesSentence},
                        {"groups", std::move(groups)},
                        {"shown", proof.shown},
                        {"not_shown", proof.not_shown},
                        {"coverage", coverage_data(record)},
                        {"unnoticed", unnoticed_data(record)},
                        {"history", page::history_data(record, extras)},
                        {"conformance", conformance_data(extras.conformance)},
                        {"mutants", std::move(mutants)},
                        {"benchmark", Json::parse(to_json(extras.benchmark))}};
  std::string text = "{";
  for (const auto& [name, value] : members.items()) {
    text += "\"" + name + "\":" + script_json(value) + ",\n";
  }
  text += "\"details\":{";
  for (const std::size_t place : detailed) {
    const harness::CaseRecord& one = record.cases[place];
    Json detail = object_json(one.evidence, evidence_fields);
    detail["statistic"] = written(one.statistic);
    detail["dof"] = written(one.dof);
    text += (text.ends_with('{') ? "\n\"" : ",\n\"") + std::to_string(place) +
            "\":" + script_json(detail);
  }
  return text + "},\n" + page::cases_data(record, detailed) + "}";
}

}  // namespace

std::string to_html(const harness::RunRecord& record, const ReportExtras& extras) {
  // The page's policy is a second protection: it lets only the page's own script run, which it
  // identifies by its hash.
  return page::filled(page::kPageHtml, {{"script_hash", std::string(page::kPageJsHash)},
                                        {"title", run_word(record)},
                                        {"style", std::string(page::kPageCss)},
                                        {"verdict", to_string(run_verdict(record))},
                                        {"headline", html_text(headline(record))},
                                        {"sentence", html_text(verdict_sentence(record))},
                                        {"data", page_data(record, extras)},
                                        {"script", std::string(page::kPageJs)}});
}

}  // namespace fairdraw::reports
