// Writes results of `identify` as text and as JSON, for the command and for Python.
#include "suites/command/identification.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "harness/contract/semantics_text.h"
#include "harness/run/evidence/causes.h"
#include "reports/json_fields.h"
#include "suites/gate/identify/seen_definitions.h"

namespace fairdraw::cli {
namespace {

using reports::Json;
using suites::ChoiceFinding;
using suites::ChoiceVerdict;
using suites::Identification;
using suites::Observation;
using suites::ProfileFinding;

// Returns a JSON number, or a text for NaN and the infinities, for which JSON has no numbers.
Json number(float value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

Json to_json(const Observation& seen) {
  constexpr std::size_t kWholeRow = 300;  // longer rows are described instead of printed
  const suites::Probe& probe = *seen.probe;
  Json values = Json::array(), tokens = Json::object();
  for (std::size_t i = 0; i < probe.values.size() && probe.values.size() <= kWholeRow; ++i) {
    values.push_back(number(probe.values[i]));
  }
  for (std::size_t id = 0; id < seen.of_token.size(); ++id) {
    if (seen.of_token[id] > 0) tokens[std::to_string(id)] = seen.of_token[id];
  }
  const bool probabilities = probe.input == harness::RowInput::probabilities;
  return {{"probe", probe.name},
          {"row", probe.row},
          {"vocab", probe.values.size()},
          {probabilities ? "probabilities" : "logits", values.empty() ? Json() : values},
          {"allowed", probe.allowed.empty() ? Json() : Json(probe.allowed)},
          {"temperature", probe.parameters.temperature},
          {"top_k", probe.parameters.top_k},
          {"top_p", probe.parameters.top_p},
          {"min_p", probe.parameters.min_p},
          {"not_asked", seen.not_made.empty() ? Json() : Json(seen.not_made)},
          {"broke", seen.broke.empty() ? Json() : Json(seen.broke)},
          {"refused", seen.refused.empty() ? Json() : Json(seen.refused)},
          {"draws", seen.draws},
          {"no_token", seen.no_token},
          {"tokens", tokens}};
}

Json to_json(const ChoiceFinding& finding) {
  Json evidence = Json::array();
  for (const Observation* const seen : finding.observations) evidence.push_back(seen->probe->name);
  return {{"choice", finding.choice},
          {"meaning", finding.meaning},
          {"verdict", to_string(finding.verdict)},
          {"value", finding.value.empty() ? Json() : Json(finding.value)},
          {"also_fit", finding.also_fit},
          {"probes", evidence}};
}

template <class... Values>
void add(std::string& text, fmt::format_string<Values...> format, Values&&... values) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Values>(values)...);
}

void add_choice(std::string& text, const ChoiceFinding& finding, bool evidence) {
  std::string what = finding.value;
  switch (finding.verdict) {
    case ChoiceVerdict::follows:
      break;
    case ChoiceVerdict::one_of:
      what += fmt::format(" (or {})", fmt::join(finding.also_fit, ", "));
      break;
    case ChoiceVerdict::mixed:
      what = "mixed: no value explains the observed results";
      break;
    case ChoiceVerdict::not_observable:
      what = "not observable";
      break;
  }
  add(text, "  {:<26} {}\n", finding.choice, what);
  if (!evidence && finding.verdict != ChoiceVerdict::mixed) return;
  for (const std::string& line : finding.evidence) add(text, "      {}\n", line);
}

void add_profiles(std::string& text, const Identification& found) {
  constexpr std::size_t kShown = 4;
  add(text, "closest profiles:\n");
  for (std::size_t i = 0; i < std::min(kShown, found.profiles.size()); ++i) {
    const ProfileFinding& profile = found.profiles[i];
    const std::size_t against = profile.contradictions.size();
    add(text, "  {:<18} {}", profile.profile,
        against == 0 ? "nothing against it" : fmt::format("{} rows against it", against));
    if (profile.unsaid > 0) add(text, ", says nothing of {}", profile.unsaid);
    add(text, "{}\n",
        profile.differences.empty()
            ? ""
            : fmt::format("; differs in {}", fmt::join(profile.differences, ", ")));
  }
}

// Adds the differences from the declared profile that a run would report, in the same words.
void add_differences(std::string& text, const harness::SamplerDescription& sampler,
                     const harness::SeenDefinitions& seen) {
  if (seen.differences.empty()) {
    add(text, "no result contradicts the profile that it declares, {}\n", sampler.semantics);
    return;
  }
  add(text, "differences from the profile that it declares, {}:\n", sampler.semantics);
  for (const harness::SeenDefinition& one : seen.differences) {
    if (one.values.empty()) {
      add(text, "  {}: no definition explains the observed results\n", one.meaning);
      continue;
    }
    const harness::CauseText told =
        harness::text_of_cause(harness::definition_cause(one.meaning, one.values.front()));
    add(text, "  {}\n      change: {}\n", told.sentence, told.change);
  }
}

}  // namespace

std::string identification_text(const Identified& of, bool evidence) {
  const Identification& found = *of.found;
  std::string text;
  add(text, "{}: {} rows, {} draws, seed {} ({})\n", of.name, found.observations.size(),
      found.draws, of.seed.value, of.seed.source);
  if (found.unanswered.empty()) {
    add_profiles(text, found);
    add(text, "what it does:\n");
    for (const ChoiceFinding& finding : found.choices) add_choice(text, finding, evidence);
    if (const auto seen =
            suites::seen_beside(found, harness::semantics_from_text(of.sampler->semantics))) {
      add_differences(text, *of.sampler, *seen);
    }
  } else {
    add(text, "cannot find the profile that it follows: {}\n", found.unanswered);
  }
  if (found.broke > 0) {
    add(text, "the sampler failed on {} rows, which the JSON lists\n", found.broke);
  }
  return text;
}

std::string identification_json(const Identified& of) {
  const Identification& found = *of.found;
  Json profiles = Json::array(), choices = Json::array(), observations = Json::array();
  for (const ProfileFinding& profile : found.profiles) {
    profiles.push_back({{"profile", profile.profile},
                        {"contradictions", profile.contradictions},
                        {"differences", profile.differences},
                        {"unsaid", profile.unsaid},
                        {"open", profile.open}});
  }
  for (const ChoiceFinding& finding : found.choices) choices.push_back(to_json(finding));
  for (const Observation& seen : found.observations) observations.push_back(to_json(seen));
  const Json all = {{"tool_version", FAIRDRAW_VERSION},
                    {"sampler", of.name},
                    {"sampler_version", of.sampler->version},
                    {"declared", of.sampler->semantics},
                    {"seed", std::to_string(of.seed.value)},
                    {"seed_source", of.seed.source},
                    {"draws", found.draws},
                    {"unanswered", found.unanswered.empty() ? Json() : Json(found.unanswered)},
                    {"error_rate", suites::kIdentifyErrorRate},
                    {"profiles", profiles},
                    {"choices", choices},
                    {"observations", observations}};
  return reports::dump(all, 2) + "\n";
}

}  // namespace fairdraw::cli
