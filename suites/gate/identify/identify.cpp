#include "suites/gate/identify/identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "harness/run/calls/draws.h"
#include "harness/run/calls/random_words.h"
#include "reference/semantic_choices.h"
#include "suites/gate/identify/match.h"
#include "suites/gate/identify/profile_sampler.h"

namespace fairdraw::suites {
namespace {

using reference::Choice;
using reference::ChoiceValue;
using reference::RealDistribution;
using reference::Semantics;

harness::Request request_of(const Probe& probe, std::uint64_t seed) {
  harness::Request request;
  request.input = probe.input;
  request.rows = 1;
  request.vocab = static_cast<std::int64_t>(probe.values.size());
  request.logits = probe.values;
  request.parameters = {probe.parameters};
  request.allowed = probe.allowed;
  request.seed = {seed};
  request.offset = {0};
  return request;
}

// Returns the distribution of each probe under each profile: [probe][profile].
const std::vector<std::vector<RealDistribution>>& profile_distributions() {
  static const std::vector<std::vector<RealDistribution>> all = [] {
    std::vector<std::vector<RealDistribution>> distributions;
    for (const Probe& probe : probes()) {
      distributions.emplace_back();
      for (const std::string& name : reference::profile_names()) {
        distributions.back().push_back(
            distribution_of_probe(probe, *reference::find_profile(name)));
      }
    }
    return distributions;
  }();
  return all;
}

// Returns a number of draws that shows every token whose probability is worth looking for, and all
// other tokens together if their sum is worth looking for.
std::uint64_t draws_to_see(const RealDistribution& distribution) {
  double least = 1, rest = 0;
  std::size_t tokens = 0;
  for (const double p : distribution.probability) {
    const bool alone = p > kWorthLookingFor;
    if (alone) least = std::min(least, p);
    if (!alone) rest += p;
    if (alone) ++tokens;
  }
  const MatchLevels levels = match_levels();
  const std::uint64_t draws = draws_to_see(least, tokens, levels);
  // If none of the other tokens is drawn, the test finds their frequency too low at level miss / 2,
  // because the test has two tails.
  constexpr std::size_t kOfTwoTails = 4;
  return rest > kWorthLookingFor ? std::max(draws, draws_to_see(rest, kOfTwoTails, levels)) : draws;
}

// Returns the number of draws of a probe. A large row costs a pass per output, so it gets only as
// many draws as show every token.
std::uint64_t draws_of(std::size_t probe) {
  constexpr std::size_t kLarge = 4096;
  std::uint64_t draws = probes()[probe].values.size() > kLarge ? 1 : kIdentifyDraws;
  for (const RealDistribution& distribution : profile_distributions()[probe])
    draws = std::max(draws, draws_to_see(distribution));
  return draws;
}

Observation observe(harness::Sampler& sampler, std::size_t number, std::uint64_t seed) {
  const Probe& probe = probes()[number];
  const harness::SamplerDescription& description = sampler.description();
  Observation seen;
  seen.probe = &probe;
  const harness::Request request = request_of(probe, seed);
  seen.not_made = harness::missing_ability(description, request);
  if (probe.many_draws && !description.indices && !description.num_samples) {
    seen.not_made = "has neither indices nor num_samples";
  }
  if (!seen.not_made.empty()) return seen;
  sampler.recover();  // damage that another probe did must not count here
  harness::Counts counts =
      harness::count_draws(sampler, request, draws_of(number), harness::mixed(seed, 1));
  // A crash does not count as a refusal, because it does not tell what the sampler would have done.
  seen.broke = sampler.broken();
  if (!seen.broke.empty()) return seen;
  seen.refused = counts.trouble;
  seen.draws = counts.draws;
  seen.no_token = counts.no_token;
  seen.of_token = std::move(counts.of_token);
  const harness::WantedResults wanted = harness::reported(description, request, {.mask = true});
  if (seen.refused.empty() && seen.no_token == 0 && wanted.mask) {
    seen.mask = harness::run_request(sampler, request, wanted).mask;
    seen.broke = sampler.broken();
    if (!seen.broke.empty()) seen.mask.clear();
  }
  return seen;
}

// The comparison of one semantics with the observations of all probes.
struct Fit {
  std::vector<std::string> contradictions;
  std::size_t unsaid = 0, open = 0;

  void add(const Observation& seen, const RealDistribution& distribution) {
    const Match result = match(seen, distribution);
    if (!result.fits()) {
      contradictions.push_back(fmt::format("{}: {}", seen.probe->name, result.contradiction));
    }
    if (result.unsaid) ++unsaid;
    if (result.open) ++open;
  }
};

Fit fit_of(const std::vector<const Observation*>& observations, const Semantics& semantics) {
  Fit fit;
  for (const Observation* const seen : observations) {
    fit.add(*seen, distribution_of_probe(*seen->probe, semantics));
  }
  return fit;
}

std::vector<const Observation*> observations_about(const std::vector<Observation>& observations,
                                                   const std::string& choice) {
  std::vector<const Observation*> about;
  for (const Observation& seen : observations) {
    const auto& choices = seen.probe->choices;
    if (std::find(choices.begin(), choices.end(), choice) != choices.end()) about.push_back(&seen);
  }
  return about;
}

// A value of a choice that explains the observations, given the other choices of `semantics`.
struct FittingValue {
  const ChoiceValue* value;
  std::size_t unsaid, open;
};

// Returns the values of a choice that fit; the value that determines most rows comes first.
std::vector<FittingValue> fitting_values(const Choice& choice,
                                         const std::vector<const Observation*>& observations,
                                         const Semantics& semantics) {
  std::vector<FittingValue> fitting;
  for (const ChoiceValue& value : choice.values) {
    Semantics tried = semantics;
    value.set(tried);
    const Fit fit = fit_of(observations, tried);
    if (fit.contradictions.empty()) fitting.push_back({&value, fit.unsaid, fit.open});
  }
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const FittingValue& a, const FittingValue& b) {
                     return std::tie(a.unsaid, a.open) < std::tie(b.unsaid, b.open);
                   });
  return fitting;
}

// Returns a sort key of explanations (smaller is better): contradictions, then probes that the
// explanation leaves undefined, then probes that it leaves open.
std::tuple<std::size_t, std::size_t, std::size_t> against(
    const std::vector<const Observation*>& observations, const Semantics& semantics) {
  const Fit fit = fit_of(observations, semantics);
  return {fit.contradictions.size(), fit.unsaid, fit.open};
}

// Changes two dependent choices to the pair of values that best explains the rows about either
// choice. (For example, the ties that top_p keeps determine the mass at which it ends.) Returns
// false if no pair is better than `semantics`.
bool change_both(const Choice& one, const Choice& other,
                 const std::vector<Observation>& observations, Semantics& semantics) {
  std::vector<const Observation*> about = observations_about(observations, one.name);
  for (const Observation* const seen : observations_about(observations, other.name)) {
    if (std::ranges::find(about, seen) == about.end()) about.push_back(seen);
  }
  std::size_t least = std::get<0>(against(about, semantics));
  std::optional<Semantics> better;
  for (const ChoiceValue& value : one.values) {
    for (const ChoiceValue& second : other.values) {
      Semantics tried = semantics;
      value.set(tried);
      second.set(tried);
      const std::size_t contradictions = std::get<0>(against(about, tried));
      if (contradictions >= least) continue;
      least = contradictions;
      better = tried;
    }
  }
  if (better) semantics = *better;
  return better.has_value();
}

// Improves the closest profile choice by choice, then two choices at a time. One of the two choices
// is tested by a row that contradicts the explanation found so far.
Semantics best_explanation(const std::vector<Observation>& observations, Semantics semantics) {
  const auto choices = reference::semantic_choices();
  const auto one_by_one = [&] {
    for (int round = 0; round < 2; ++round) {
      for (const Choice& choice : choices) {
        const auto fitting =
            fitting_values(choice, observations_about(observations, choice.name), semantics);
        const bool already =
            std::any_of(fitting.begin(), fitting.end(),
                        [&](const FittingValue& one) { return one.value->is_set(semantics); });
        if (!fitting.empty() && !already) fitting.front().value->set(semantics);
      }
    }
  };
  one_by_one();
  const auto is_about = [](const Observation& seen, const Choice& choice) {
    return std::ranges::find(seen.probe->choices, choice.name) != seen.probe->choices.end();
  };
  bool changed = false;
  for (const Observation& seen : observations) {
    for (const Choice& one : choices) {
      if (!is_about(seen, one)) continue;
      for (const Choice& other : choices) {
        if (&one == &other) continue;
        const bool contradicted =
            !match(seen, distribution_of_probe(*seen.probe, semantics)).fits();
        if (!contradicted) break;
        changed = change_both(one, other, observations, semantics) || changed;
      }
    }
  }
  if (changed) one_by_one();
  return semantics;
}

std::string asked(const Probe& probe) {
  const reference::RowParameters& p = probe.parameters;
  return fmt::format("{} ({}; temperature {}, top_k {}, top_p {}, min_p {})", probe.name, probe.row,
                     p.temperature, p.top_k, p.top_p, p.min_p);
}

ChoiceFinding judge(const Choice& choice, const std::vector<Observation>& observations,
                    const Semantics& semantics) {
  ChoiceFinding finding;
  finding.choice = choice.name;
  finding.meaning = choice.meaning;
  finding.observations = observations_about(observations, choice.name);
  for (const Observation* const seen : finding.observations) {
    finding.evidence.push_back(fmt::format("{}: {}", asked(*seen->probe), describe(*seen)));
  }
  const auto fitting = fitting_values(choice, finding.observations, semantics);
  if (fitting.empty()) {
    finding.verdict = ChoiceVerdict::mixed;
    return finding;
  }
  // A value that determines every row is better than one that does not, because "undefined" fits
  // everything.
  const FittingValue& best = fitting.front();
  std::size_t alike = 0;
  for (const FittingValue& one : fitting) {
    const bool says_less = one.unsaid > best.unsaid;
    if (&one != &best && !says_less) finding.also_fit.push_back(one.value->name);
    if (one.unsaid == best.unsaid && one.open == best.open) ++alike;
  }
  if (alike == choice.values.size()) {
    finding.verdict = ChoiceVerdict::not_observable;
    finding.also_fit.insert(finding.also_fit.begin(), best.value->name);
    return finding;
  }
  finding.value = best.value->name;
  finding.verdict = finding.also_fit.empty() ? ChoiceVerdict::follows : ChoiceVerdict::one_of;
  return finding;
}

// Returns the reason why nothing can be said, or an empty string if a probe was answered.
std::string why_unanswered(const std::vector<Observation>& observations) {
  std::string first;
  std::size_t asked = 0;
  for (const Observation& seen : observations) {
    if (seen.draws > seen.no_token) return {};
    if (seen.not_made.empty()) ++asked;
    if (!first.empty()) continue;
    first = !seen.broke.empty()     ? "the sampler broke: " + seen.broke
            : !seen.refused.empty() ? "the call was refused: " + seen.refused
            : seen.not_made.empty() ? "it gave no token"
                                    : "";
  }
  return asked == 0
             ? "the sampler has the abilities for none of the probes"
             : fmt::format("none of {} probes was answered; at the first one {}", asked, first);
}

std::vector<ProfileFinding> rank_profiles(const std::vector<Observation>& observations) {
  std::vector<ProfileFinding> profiles;
  const auto names = reference::profile_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    Fit fit;
    for (std::size_t probe = 0; probe < observations.size(); ++probe) {
      fit.add(observations[probe], profile_distributions()[probe][i]);
    }
    profiles.push_back({names[i], std::move(fit.contradictions), {}, fit.unsaid, fit.open});
  }
  const auto key = [](const ProfileFinding& profile) {
    return std::make_tuple(profile.contradictions.size(), profile.unsaid, profile.open);
  };
  std::stable_sort(profiles.begin(), profiles.end(),
                   [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return profiles;
}

}  // namespace

const char* to_string(ChoiceVerdict verdict) {
  switch (verdict) {
    case ChoiceVerdict::follows:
      return "follows";
    case ChoiceVerdict::one_of:
      return "one_of";
    case ChoiceVerdict::mixed:
      return "mixed";
    case ChoiceVerdict::not_observable:
      return "not_observable";
  }
  return "unknown";
}

std::string describe(const Observation& seen) {
  if (!seen.broke.empty()) return "no answer: " + seen.broke;
  if (!seen.not_made.empty()) return "not asked: the sampler " + seen.not_made;
  if (!seen.refused.empty()) return "the call was refused: " + seen.refused;
  if (seen.no_token == seen.draws) return fmt::format("no token in {} draws", seen.draws);
  constexpr std::size_t kShown = 6;
  std::string text;
  std::size_t tokens = 0;
  for (std::size_t id = 0; id < seen.of_token.size(); ++id) {
    if (seen.of_token[id] == 0) continue;
    if (++tokens > kShown) continue;
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", id, seen.of_token[id]);
  }
  if (tokens > kShown) text += fmt::format(" and {} more", tokens - kShown);
  if (seen.no_token > 0) text += fmt::format(", no token x {}", seen.no_token);
  return fmt::format("token {} in {} draws", text, seen.draws);
}

bool allows(const ChoiceFinding& finding, const std::string& value) {
  return finding.verdict == ChoiceVerdict::not_observable || finding.value == value ||
         std::find(finding.also_fit.begin(), finding.also_fit.end(), value) !=
             finding.also_fit.end();
}

Identification identify(harness::Sampler& sampler, std::uint64_t seed) {
  Identification result;
  for (std::size_t i = 0; i < probes().size(); ++i) {
    result.observations.push_back(observe(sampler, i, harness::mixed(seed, i)));
    const Observation& seen = result.observations.back();
    result.draws += seen.draws;
    if (!seen.broke.empty()) ++result.broke;
    if (result.broke >= kIdentifyPatience && result.draws == 0) break;
  }
  result.unanswered = why_unanswered(result.observations);
  if (!result.unanswered.empty()) return result;
  result.profiles = rank_profiles(result.observations);
  const Semantics semantics = best_explanation(
      result.observations, *reference::find_profile(result.profiles.front().profile));
  for (const Choice& choice : reference::semantic_choices()) {
    result.choices.push_back(judge(choice, result.observations, semantics));
  }
  const auto choices = reference::semantic_choices();
  for (ProfileFinding& profile : result.profiles) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const std::string& value = choices[i].of(*reference::find_profile(profile.profile)).name;
      if (!allows(result.choices[i], value)) profile.differences.push_back(choices[i].name);
    }
  }
  return result;
}

}  // namespace fairdraw::suites
