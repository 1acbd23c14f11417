// Replay capsules: a failing case as a small JSON file that means the same on any machine.
//
// A capsule is data. It names a property and a case; a sampler's name in it is for people to read.
// Who replays it says which sampler is judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "suites/gate/fuzz/draw_properties.h"
#include "suites/gate/fuzz/properties.h"

namespace fairdraw::suites::fuzz {

inline constexpr std::uint64_t kCapsuleVersion = 1;
inline constexpr std::size_t kMaxCapsuleBytes = std::size_t{1} << 16;

struct Capsule {
  std::string tool_version;
  std::string sampler;    ///< information only
  std::string semantics;  ///< profile that the case was judged by
  std::string property;
  std::string message;  ///< what was wrong; information only
  FuzzCase fuzz_case;
  /// Of a distribution: the probabilities that the draws were judged by, and what was drawn.
  std::optional<DrawDistribution> distribution;
  std::vector<std::uint64_t> counts;
  std::uint64_t counted_draws = 0;
};

/// Where the capsule's case is a distribution: adds the distribution that the sampler is judged by,
/// and what it draws with the case's seed.
void add_drawn_distribution(Capsule& capsule, harness::Sampler& sampler,
                            const reference::Semantics& semantics);

/// The capsule as JSON. Floats are written as the eight hexadecimal digits of their bits, runs of
/// one value as "digits*count"; numbers of 64 bits as decimal strings. Throws std::length_error
/// where it would be longer than kMaxCapsuleBytes.
std::string to_json(const Capsule& capsule);

/// Reads a capsule. Throws harness::UsageError with the place (a JSON pointer, or the byte where
/// the text stops being JSON): truncated, another schema version, unknown or missing or repeated
/// fields, sizes that do not fit each other or exceed the limits of a case, an unknown property or
/// profile, values that are not of the dtype, a recorded distribution that does not sum to 1. What
/// it allocates is bounded by the limits in fuzz_case.h.
Capsule from_json(std::string_view text);

/// Judges the capsule's case. `semantics`: the profile to judge by; where it is not the capsule's,
/// or a recorded distribution is not the one of these semantics, that is bad input:
/// harness::UsageError.
Judgement replay(const Capsule& capsule, harness::Sampler& sampler,
                 const reference::Semantics& semantics);

}  // namespace fairdraw::suites::fuzz
