// A trial of the causes that reports name, by mutants that the rules behind them were never tuned
// on: every third of the catalogue, by a hash of its name, so that nobody chooses which.
//
// Who works on the causes looks at the other two thirds only, with `fairdraw mutants --only-tuning`
// and its JSON, and at the held-out ones once, when all is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {

/// CRC-32 of the bytes, as zlib, PNG and Python's binascii.crc32 have it.
constexpr std::uint32_t crc32(std::string_view text) {
  constexpr std::uint32_t kPolynomial = 0xedb88320;  // of ISO 3309, bits reversed
  std::uint32_t rest = 0xffffffff;
  for (const char letter : text) {
    rest ^= static_cast<unsigned char>(letter);
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1U) != 0 ? kPolynomial : 0);
  }
  return ~rest;
}

/// True of every third name.
constexpr bool is_held_out(std::string_view mutant) { return crc32(mutant) % 3 == 0; }

inline constexpr std::size_t kTrialMutants = 30, kTrialNamed = 24;

/// Trials that are over: who has looked at one knows its mutants, so that the next one takes the
/// next thirty. The first named 22 of 30 and the second 23, by causes declared for single mutants;
/// the third 27, by their classes alone. One of the third, topp-drops-crossing, had been looked at.
inline constexpr std::size_t kTrialsBefore = 2;

/// The next kTrialMutants of the held-out mutants that can be told from outside, by their CRC-32:
/// of kTrialNamed of them at least the first cause must be right.
std::vector<const Mutant*> trial_mutants();

/// The causes that are right for a mutant of the trial whose class is too coarse to say, or does
/// not hold what its sentence says: read from that sentence, before any of them was run. Empty for
/// all others, whose class says it.
std::span<const std::string_view> declared_causes(std::string_view mutant);

}  // namespace fairdraw::suites
