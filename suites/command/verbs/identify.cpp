// identify: which definitions a sampler follows, with the evidence.
#include "suites/gate/identify/identify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/contract/semantics_text.h"
#include "harness/contract/usage_error.h"
#include "harness/run/evidence/causes.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/output_file.h"
#include "suites/command/run_options.h"
#include "suites/command/samplers.h"
#include "suites/command/seed.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/identify/seen_definitions.h"

namespace fairdraw::cli {
namespace {

using Json = nlohmann::ordered_json;
using suites::ChoiceFinding;
using suites::ChoiceVerdict;
using suites::Identification;
using suites::Observation;
using suites::ProfileFinding;

struct IdentifyOptions {
  std::string sampler;
  std::string json;
  std::optional<std::string> seed;
  bool evidence = false;
  harness::plugin::Options plugins;
};

// JSON has no number for NaN and infinities.
Json number(float value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

Json to_json(const Observation& seen) {
  constexpr std::size_t kWholeRow = 300;  // longer rows are described by their text
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

void write_json(const OutputFile& file, const IdentifyOptions& options,
                const harness::SamplerDescription& sampler, const Identification& found,
                const SeedChoice& seed) {
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
                    {"sampler", options.sampler},
                    {"sampler_version", sampler.version},
                    {"declared", sampler.semantics},
                    {"seed", std::to_string(seed.value)},
                    {"seed_source", seed.source},
                    {"draws", found.draws},
                    {"unanswered", found.unanswered.empty() ? Json() : Json(found.unanswered)},
                    {"error_rate", suites::kIdentifyErrorRate},
                    {"profiles", profiles},
                    {"choices", choices},
                    {"observations", observations}};
  file.write(all.dump(2) + "\n");
}

void print_choice(const ChoiceFinding& finding, bool evidence) {
  std::string what = finding.value;
  switch (finding.verdict) {
    case ChoiceVerdict::follows:
      break;
    case ChoiceVerdict::one_of:
      what += fmt::format(" (or {})", fmt::join(finding.also_fit, ", "));
      break;
    case ChoiceVerdict::mixed:
      what = "mixed: no value explains what was seen";
      break;
    case ChoiceVerdict::not_observable:
      what = "not observable";
      break;
  }
  print("  {:<26} {}\n", finding.choice, what);
  if (!evidence && finding.verdict != ChoiceVerdict::mixed) return;
  for (const std::string& line : finding.evidence) print("      {}\n", line);
}

void print_profiles(const Identification& found) {
  constexpr std::size_t kShown = 4;
  print("closest profiles:\n");
  for (std::size_t i = 0; i < std::min(kShown, found.profiles.size()); ++i) {
    const ProfileFinding& profile = found.profiles[i];
    const std::size_t against = profile.contradictions.size();
    print("  {:<18} {}", profile.profile,
          against == 0 ? "nothing against it" : fmt::format("{} rows against it", against));
    if (profile.unsaid > 0) print(", says nothing of {}", profile.unsaid);
    print("{}\n", profile.differences.empty()
                      ? ""
                      : fmt::format("; differs in {}", fmt::join(profile.differences, ", ")));
  }
}

// What a run under the profile that the sampler declares names, in the words of its report.
void print_differences(const harness::SamplerDescription& sampler,
                       const harness::SeenDefinitions& seen) {
  if (seen.differences.empty()) {
    print("nothing speaks against the profile that it declares, {}\n", sampler.semantics);
    return;
  }
  print("where it does otherwise than the profile that it declares, {}:\n", sampler.semantics);
  for (const harness::SeenDefinition& one : seen.differences) {
    if (one.values.empty()) {
      print("  {}: no definition explains what was seen\n", one.meaning);
      continue;
    }
    const harness::CauseText text =
        harness::text_of_cause(harness::definition_cause(one.meaning, one.values.front()));
    print("  {}\n      change: {}\n", text.sentence, text.change);
  }
}

int identify(const IdentifyOptions& options) {
  const OutputFile file("--json", options.json);
  const auto sampler = sampler_maker(options.plugins)(options.sampler);
  const SeedChoice seed = choose_seed(options.seed, std::nullopt);
  const Identification found = suites::identify(*sampler, seed.value);
  print("{}: {} rows, {} draws, seed {} ({})\n", options.sampler, found.observations.size(),
        found.draws, seed.value, seed.source);
  if (found.unanswered.empty()) {
    print_profiles(found);
    print("what it does:\n");
    for (const ChoiceFinding& finding : found.choices) print_choice(finding, options.evidence);
    if (const auto seen = suites::seen_beside(
            found, harness::semantics_from_text(sampler->description().semantics))) {
      print_differences(sampler->description(), *seen);
    }
  } else {
    print("cannot say which profile it follows: {}\n", found.unanswered);
  }
  if (found.broke > 0) print("the sampler broke over {} rows: --json says which\n", found.broke);
  if (file.wanted()) {
    write_json(file, options, sampler->description(), found, seed);
  }
  return found.unanswered.empty() && found.broke == 0 ? 0 : kExitUndecided;
}

}  // namespace

Verb add_identify(CLI::App& app) {
  const auto options = std::make_shared<IdentifyOptions>();
  add_option(app, "--sampler", options->sampler, "NAME",
             "Sampler to probe: a name of `fairdraw list samplers`, plugin:PATH for one in a "
             "shared library, profile:NAME for one made of a profile",
             {.required = true});
  add_plugin_options(app, options->plugins);
  add_json(app, options->json, "Write everything that was asked and seen");
  add_flag(app, "--evidence", options->evidence, "Show what was asked and seen");
  add_option(app, "--seed", options->seed, "N",
             "Seed of the draws, 64 bits (default: made from the commit, as `verify` does)");
  return [options] {
    return with_plugins(options->plugins, {options->sampler},
                        [options] { return identify(*options); });
  };
}

}  // namespace fairdraw::cli
