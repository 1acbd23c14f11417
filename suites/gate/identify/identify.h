// Identification of the definitions that an unknown sampler follows. The sampler draws from rows on
// which definitions differ, and the real-number oracle tells which values of each choice could have
// produced the draws.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "suites/gate/identify/probes.h"

namespace fairdraw::suites {

/// The result of one probe.
struct Observation {
  const Probe* probe = nullptr;
  std::string not_made;  ///< the ability that the sampler lacks; empty if the call was made
  std::string refused;   ///< reason why the call was refused; empty if the call ran
  std::string broke;     ///< how the sampler broke (crashed, hung); empty if it did not break
  std::uint64_t draws = 0, no_token = 0;
  std::vector<std::uint64_t> of_token;  ///< [vocab]
  std::vector<std::uint32_t> mask;      ///< packed bits; empty if the sampler reports no masks
};

enum class ChoiceVerdict {
  follows,         ///< `value` alone fits
  one_of,          ///< values `value` and `also_fit` fit; `value` determines most rows
  mixed,           ///< no value fits the observations
  not_observable,  ///< every value fits
};
const char* to_string(ChoiceVerdict verdict);

struct ChoiceFinding {
  std::string choice, meaning;
  ChoiceVerdict verdict = ChoiceVerdict::not_observable;
  std::string value;                  ///< the fitting value; empty if it is mixed or not observable
  std::vector<std::string> also_fit;  ///< further fitting values, set for one_of and not_observable
  std::vector<std::string> evidence;  ///< one sentence per probe: the question and the answer
  std::vector<const Observation*> observations;
};

struct ProfileFinding {
  std::string profile;
  std::vector<std::string> contradictions;  ///< "probe: why", one per probe that excludes the
                                            ///< profile
  std::vector<std::string> differences;     ///< names of choices whose value in the profile does
                                            ///< not fit
  std::size_t unsaid = 0;                   ///< number of probes whose result the profile leaves
                                            ///< undefined
  std::size_t open = 0;                     ///< number of probes whose result the profile leaves
                                            ///< partly open
};

/// The result of identify(). If `unanswered` is set, the result has no choices and no profiles.
struct Identification {
  std::vector<Observation> observations;  ///< in the order of probes()
  std::vector<ChoiceFinding> choices;     ///< in the order of semantic_choices()
  /// Profiles, with the closest one first: the one with the fewest contradictions, then with the
  /// fewest undefined results, and then with the fewest open results.
  std::vector<ProfileFinding> profiles;
  std::uint64_t draws = 0;
  std::string unanswered;  ///< reason why no probe was answered; empty if one was answered
  std::size_t broke = 0;   ///< number of probes over which the sampler broke
};

/// Number of probes after which identification stops for a sampler that broke over each of them,
/// because each may cost the timeout of a hanging call.
inline constexpr std::size_t kIdentifyPatience = 3;

/// Largest probability, over all probes, that a sampler which follows a value exactly is wrongly
/// found to contradict the value. Half of this probability is for kept tokens that were not drawn,
/// half for frequencies.
inline constexpr double kIdentifyErrorRate = 1e-9;

/// Minimum number of draws of a probe. The closest shares of two values, .586 and .667, are 15
/// standard deviations apart.
inline constexpr std::uint64_t kIdentifyDraws = 8192;

/// Runs the probes on `sampler` with seeds made from `seed`.
Identification identify(harness::Sampler& sampler, std::uint64_t seed);

/// Returns whether the sampler may follow this value of a choice.
bool allows(const ChoiceFinding& finding, const std::string& value);

/// Describes an observation for readers: "tokens 0, 2 and 3 (2041, 4090, 2061 of 8192 draws)".
std::string describe(const Observation& observation);

}  // namespace fairdraw::suites
