// Which definitions an unknown sampler follows: it draws from rows on which they differ, and the
// real-number oracle says which values of each choice could have given what came back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "suites/gate/identify/probes.h"

namespace fairdraw::suites {

/// What came back for one probe.
struct Observation {
  const Probe* probe = nullptr;
  std::string not_made;  ///< the ability that the sampler lacks; empty: it was made
  std::string refused;   ///< why the call did not run; empty: it ran
  std::string broke;     ///< how the sampler broke over it (it crashed, it hung); empty: it did not
  std::uint64_t draws = 0, no_token = 0;
  std::vector<std::uint64_t> of_token;  ///< [vocab]
  std::vector<std::uint32_t> mask;      ///< packed bits, where the sampler reports masks; or empty
};

enum class ChoiceVerdict {
  follows,         ///< `value` alone fits
  one_of,          ///< `value` and `also_fit` fit; `value` says most
  mixed,           ///< no value fits what was seen
  not_observable,  ///< every value fits
};
const char* to_string(ChoiceVerdict verdict);

struct ChoiceFinding {
  std::string choice, meaning;
  ChoiceVerdict verdict = ChoiceVerdict::not_observable;
  std::string value;                  ///< empty: mixed, or not observable
  std::vector<std::string> also_fit;  ///< of one_of, and of not_observable
  std::vector<std::string> evidence;  ///< one sentence a probe: what was asked and what came back
  std::vector<const Observation*> observations;
};

struct ProfileFinding {
  std::string profile;
  std::vector<std::string> contradictions;  ///< "probe: why", one a probe that the profile excludes
  std::vector<std::string> differences;     ///< choices whose value does not fit
  std::size_t unsaid = 0;                   ///< probes of which the profile says nothing
  std::size_t open = 0;                     ///< probes of which it leaves something open
};

/// Where it cannot be said (`unanswered`) there are no choices and no profiles.
struct Identification {
  std::vector<Observation> observations;  ///< in the order of probes()
  std::vector<ChoiceFinding> choices;     ///< in the order of semantic_choices()
  /// Closest first: fewest contradictions, then least unsaid, then least open.
  std::vector<ProfileFinding> profiles;
  std::uint64_t draws = 0;
  std::string unanswered;  ///< why nothing can be said: no probe was answered; empty: it can
  std::size_t broke = 0;   ///< probes over which the sampler broke
};

/// A sampler that broke over so many probes, and answered none, is asked no further: each may cost
/// the time that a hanging call is given.
inline constexpr std::size_t kIdentifyPatience = 3;

/// Largest probability that a sampler which follows a value of a choice to the letter is said to
/// contradict it, over all probes: half for tokens that are kept and were not drawn, half for
/// frequencies.
inline constexpr double kIdentifyErrorRate = 1e-9;

/// Draws of a probe, at least: shares of .586 and .667, the closest that two values give, lie 15
/// standard deviations apart.
inline constexpr std::uint64_t kIdentifyDraws = 8192;

/// Probes `sampler`; seeds come from `seed`.
Identification identify(harness::Sampler& sampler, std::uint64_t seed);

/// Whether the sampler may follow this value of a choice.
bool allows(const ChoiceFinding& finding, const std::string& value);

/// "tokens 0, 2 and 3 (2041, 4090, 2061 of 8192 draws)": what was seen, for readers.
std::string describe(const Observation& observation);

}  // namespace fairdraw::suites
