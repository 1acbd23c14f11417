// Chooses the mutants for a blind trial of the causes that reports name. The trial uses mutants on
// which the rules for causes were never tuned: every third mutant of the catalogue. A hash of the
// names decides, so that nobody chooses the mutants.
//
// People who work on the causes look only at the other two thirds, with `fairdraw mutants
// --only-tuning` and its JSON. People look at the held-out mutants once, at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {

/// Returns the CRC-32 of the bytes, as in zlib, PNG and Python's binascii.crc32.
constexpr std::uint32_t crc32(std::string_view text) {
  // the polynomial of ISO 3309, with its bits reversed
  constexpr std::uint32_t kPolynomial = 0xedb88320;
  std::uint32_t rest = 0xffffffff;
  for (const char letter : text) {
    rest ^= static_cast<unsigned char>(letter);
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1U) != 0 ? kPolynomial : 0);
  }
  return ~rest;
}

/// Returns whether a mutant is held out; one name in three is held out.
constexpr bool is_held_out(std::string_view mutant) { return crc32(mutant) % 3 == 0; }

inline constexpr std::size_t kTrialMutants = 30, kTrialNamed = 24;

/// Number of past trials, whose mutants are now known; the next trial takes the next thirty
/// mutants. In the first trial, 22 of 30 first causes were right, and in the second 23, by causes
/// declared for single mutants. In the third, 27 were right, by classes alone. One mutant of the
/// third trial, topp-drops-crossing, had been looked at before.
inline constexpr std::size_t kTrialsBefore = 2;

/// Returns the next kTrialMutants held-out mutants that can be detected from outside, in the order
/// of their CRC-32. The first cause must be right for at least kTrialNamed of these mutants.
std::vector<const Mutant*> trial_mutants();

/// Returns the right causes of a mutant of the trial, if its class is too coarse or does not match
/// its sentence. These causes were derived from the sentence before any mutant of the trial was
/// run. The list is empty for all other mutants, for which the class gives the right causes.
std::span<const std::string_view> declared_causes(std::string_view mutant);

}  // namespace fairdraw::suites
