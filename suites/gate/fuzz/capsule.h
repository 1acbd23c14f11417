// A replay capsule is a failing fuzz case in a small JSON file, which means the same on any
// machine.
//
// A capsule is data. A capsule names a property and contains a case. The name of the sampler in a
// capsule is only for readers: the user of a replay chooses the sampler to judge.
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
  std::string semantics;  ///< name of the profile by which the case was judged
  std::string property;
  std::string message;  ///< description of the failure, for information only
  FuzzCase fuzz_case;
  /// For a distribution: the probabilities by which the draws were judged, and the counts of the
  /// draws.
  std::optional<DrawDistribution> distribution;
  std::vector<std::uint64_t> counts;
  std::uint64_t counted_draws = 0;
};

/// If the capsule's case is a distribution, adds the distribution by which the sampler is judged,
/// and its draws with the case's seed.
void add_drawn_distribution(Capsule& capsule, harness::Sampler& sampler,
                            const reference::Semantics& semantics);

/// Returns the text of the capsule as JSON. Floats are written as the eight hexadecimal digits of
/// their bits, runs of equal values as "digits*count", and 64-bit numbers as decimal strings.
/// Throws std::length_error if the text would exceed kMaxCapsuleBytes.
std::string to_json(const Capsule& capsule);

/// Reads a capsule. Reads a capsule. Throws harness::UsageError with the place (a JSON pointer, or
/// the byte where the text stops being JSON) if the text is not a valid capsule. A capsule is
/// rejected if it is truncated, or has another schema version, or unknown, missing or repeated
/// fields. It is rejected if its sizes do not fit each other or exceed the limits of a case, or if
/// it names an unknown property or profile. It is also rejected if a value cannot have the dtype,
/// or if a recorded distribution does not sum to 1. The limits in fuzz_case.h bound the memory that
/// the function allocates.
Capsule from_json(std::string_view text);

/// Judges the capsule's case under the profile `semantics`. Throws harness::UsageError if the
/// capsule has another profile, or if its recorded distribution differs from that of `semantics`.
Judgement replay(const Capsule& capsule, harness::Sampler& sampler,
                 const reference::Semantics& semantics);

}  // namespace fairdraw::suites::fuzz
