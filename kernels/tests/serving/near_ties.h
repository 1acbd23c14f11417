// Rows of two tokens whose arrival times in a race are so close that bounds in double do not decide
// between them.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/tile_weights.h"
#include "serving/rules/watermark_rules.h"

namespace fairdraw::suites {

/// Logits of tokens 0 and 1 at temperature 1, and the key of the row, whose output is empty and
/// whose window is 1.
struct NearTie {
  std::uint64_t key;
  float logits[2];
};

/// Returns L(u) as a real number.
inline long double real_of(const ArrivalTime& time) {
  return static_cast<long double>(time.whole) * 0x1p64L + static_cast<long double>(time.fraction);
}

/// Returns a logit of octave 0 whose weight has this significand, from 2^22.5 to 2^23.5.
inline float logit_of(std::uint32_t significand) {
  const float scale = logit_scale(1.0F);
  const double octaves = std::log2(static_cast<double>(significand) * 0x1p-23);
  auto logit = static_cast<float>(octaves / static_cast<double>(scale));
  while (octaves_of(logit, scale).significand > significand) logit = std::nextafter(logit, -1.0F);
  while (octaves_of(logit, scale).significand < significand) logit = std::nextafter(logit, 1.0F);
  return logit;
}

/// Weight of a token of octave 0 in a row whose octave is 0.
inline double weight_of(float logit) {
  const Octaves octaves = octaves_of(logit, logit_scale(1.0F));
  return std::ldexp(static_cast<double>(octaves.significand), kTileBits + kRowBits);
}

/// Returns `count` near ties: of all pairs of significands, those whose ratio is the closest to
/// that of the two times. There are 2^22.5 fractions, so the closest is about 2^-46 off.
inline std::vector<NearTie> near_ties(std::size_t count) {
  constexpr std::uint32_t kLeast = 6000000, kMost = 11800000;
  std::vector<NearTie> found;
  for (std::uint64_t key = 1; found.size() < count; ++key) {
    const std::uint64_t context = context_key(key, 1, nullptr, 0);
    const long double ratio = real_of(arrival_time(keyed_word(context, 0))) /
                              real_of(arrival_time(keyed_word(context, 1)));
    if (ratio < 0.6L || ratio > 1.6L) continue;
    std::uint32_t best[2] = {kLeast, kLeast};
    long double least = 1;
    for (std::uint32_t other = kLeast; other <= kMost; ++other) {
      const long double exact = ratio * static_cast<long double>(other);
      const long double rounded = std::rint(exact);
      if (rounded < kLeast || rounded > kMost) continue;
      const long double error = std::fabs(rounded - exact) / exact;
      if (error >= least) continue;
      least = error;
      best[0] = static_cast<std::uint32_t>(rounded);
      best[1] = other;
    }
    found.push_back({key, {logit_of(best[0]), logit_of(best[1])}});
  }
  return found;
}

/// Returns whether the bounds of a tie overlap.
inline bool is_undecided(const NearTie& tie) {
  const std::uint64_t context = context_key(tie.key, 1, nullptr, 0);
  const ArrivalBounds first = arrival_bounds(keyed_word(context, 0), weight_of(tie.logits[0]));
  const ArrivalBounds second = arrival_bounds(keyed_word(context, 1), weight_of(tie.logits[1]));
  return first.lower <= second.upper && second.lower <= first.upper;
}

}  // namespace fairdraw::suites
