// Keyed words of a watermark and the race between them, the same for every backend
// (fairdraw/watermark.h defines both).
//
// Bounds. A survivor whose lower bound is above some upper bound loses, and only if bounds overlap
// the integers decide. U and 1 - U come from the word and its complement, within two roundings
// each. Let U = m 2^-k, m in [sqrt(1/2), sqrt(2)), s = (1 - m) / (1 + m) and q = s^2 < 0.0295. Then
// -ln U = k ln2 + 2 s (1 + q/3 + q^2/5 + ...), of which 9 terms are summed: the others are less
// than q^9 / (19 (1 - q)) < 2^-49 of the sum s (1 + q/3 + ...).
//   k = 0  1 - m is 1 - U. s has at most 6 roundings of 2^-53 each, the sum 4 more (a rounding in
//          it that is not the last counts at most q/3 of its size), and so has -ln U.
//   k > 0  1 - m is exact for the rounded m, which is off by at most 2^-52 m. This moves ln m by at
//          most 2^-52, and -ln U is at least ln2 - ln(2)/2 > 0.34, so it counts 2^-50. k ln2 has 2
//          roundings, s and the sum have 7 more of at most 0.35 each, and their sum has one.
// So the computed -ln U is off by less than 2^-48 of it, and the quotient by the weight, with the
// last product, by less than 2^-47: kMargin is twice that. L ln2 2^-64 exceeds -ln U by less than
// 2^-64. 1 - U is at most -ln U, so most survivors lose by a product.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"
#include "common/processing_rules.h"
#include "common/wide_integers.h"
#include "fairdraw/watermark.h"
#include "serving/rules/child_seeds.h"

namespace fairdraw {

/// Returns the block that holds the context after `output`: the key of its tokens' words.
FAIRDRAW_HOST_DEVICE inline std::uint64_t context_key(std::uint64_t key, std::int32_t window,
                                                      const std::int32_t* output,
                                                      std::int64_t length) {
  std::uint64_t state = key;
  auto counter = static_cast<std::uint64_t>(window);
  for (std::int64_t back = window; back >= 0; --back) {
    state = threefry_block(state, counter);
    const std::int64_t id = back > 0 && back <= length ? output[length - back] : -1;
    counter = static_cast<std::uint64_t>(id + 1);
  }
  return state;
}

FAIRDRAW_HOST_DEVICE inline std::uint64_t keyed_word(std::uint64_t context_key,
                                                     std::int32_t token) {
  return threefry_block(context_key, static_cast<std::uint64_t>(token));
}

/// Returns whether the output had its last `window` ids before. A context that reaches before the
/// first id is new. Threads that share the places have `first` apart, and their number as `step`.
FAIRDRAW_HOST_DEVICE inline bool context_is_repeated(const std::int32_t* output,
                                                     std::int64_t length, std::int32_t window,
                                                     std::int64_t first = 0,
                                                     std::int64_t step = 1) {
  for (std::int64_t end = window + first; end < length; end += step) {
    std::int32_t same = 0;
    while (same < window && output[end - 1 - same] == output[length - 1 - same]) ++same;
    if (same == window) return true;
  }
  return false;
}

/// Returns whether a draw takes the second key, by the coin `word`.
FAIRDRAW_HOST_DEVICE inline bool takes_second_key(float share, std::uint64_t word) {
  // A float times 2^64 is exact in double.
  return share >= 1.0F || word < static_cast<std::uint64_t>(static_cast<double>(share) * 0x1p64);
}

/// Returns the words below which tokens are green.
FAIRDRAW_HOST_DEVICE inline std::uint64_t green_limit(float share) {
  // A float times 2^64 is exact in double.
  return static_cast<std::uint64_t>(static_cast<double>(share) * 0x1p64);
}

/// The arrival time L, in units of 2^-64.
struct ArrivalTime {
  std::uint64_t fraction;
  std::uint32_t whole;
};

/// Returns floor(x^2 / 2^128).
FAIRDRAW_HOST_DEVICE inline uint128_t square_high(uint128_t x) {
  const auto high = static_cast<std::uint64_t>(x >> 64);
  const auto low = static_cast<std::uint64_t>(x);
  const uint128_t cross = static_cast<uint128_t>(high) * low;
  const uint128_t middle = static_cast<uint128_t>(multiply_high(low, low)) +
                           static_cast<uint128_t>(static_cast<std::uint64_t>(cross)) * 2U;
  return static_cast<uint128_t>(high) * high + (cross >> 64) * 2U + (middle >> 64);
}

FAIRDRAW_HOST_DEVICE inline ArrivalTime arrival_time(std::uint64_t word) {
  const int highest = word == 0 ? 0 : 64 - leading_zeros(word);  // of 2 word + 1
  uint128_t x = ((static_cast<uint128_t>(word) << 1) | 1U) << (127 - highest);
  std::uint64_t digits = 0;
  for (int step = 0; step < 64; ++step) {
    const uint128_t squared = square_high(x);
    const auto digit = static_cast<std::uint32_t>(squared >> 127);
    digits = (digits << 1) | digit;
    x = squared << (1U - digit);
  }
  const auto whole = static_cast<std::uint32_t>(65 - highest);
  return digits == 0 ? ArrivalTime{0, whole} : ArrivalTime{0 - digits, whole - 1};
}

/// A product of an arrival time and a weight below 2^104, of up to 175 bits.
struct ArrivalProduct {
  uint128_t high;
  std::uint64_t low;
};

FAIRDRAW_HOST_DEVICE inline ArrivalProduct times(const ArrivalTime& time, uint128_t weight) {
  const uint128_t low = static_cast<uint128_t>(time.fraction) * static_cast<std::uint64_t>(weight);
  const uint128_t middle =
      static_cast<uint128_t>(time.fraction) * static_cast<std::uint64_t>(weight >> 64) +
      (low >> 64);
  return {middle + weight * time.whole, static_cast<std::uint64_t>(low)};
}

/// Returns whether time / weight is below other_time / other_weight.
FAIRDRAW_HOST_DEVICE inline bool arrives_before(const ArrivalTime& time, uint128_t weight,
                                                const ArrivalTime& other_time,
                                                uint128_t other_weight) {
  const ArrivalProduct mine = times(time, other_weight);
  const ArrivalProduct others = times(other_time, weight);
  return mine.high != others.high ? mine.high < others.high : mine.low < others.low;
}

inline constexpr double kMargin = 0x1p-46;

/// Returns whether L ln2 2^-64 / weight is above `time` already by its smaller bound 1 - U, for
/// which a product suffices. `weight` is the double nearest to the weight, here and below.
FAIRDRAW_HOST_DEVICE inline bool arrives_after(std::uint64_t word, double weight, double time) {
  const double rest = (static_cast<double>(~word) + 0.5) * 0x1p-64;
  return rest * (1.0 - kMargin) > weight * time;
}

/// Bounds of L ln2 2^-64 / weight.
struct ArrivalBounds {
  double lower, upper;
};

FAIRDRAW_HOST_DEVICE inline ArrivalBounds arrival_bounds(std::uint64_t word, double weight) {
  constexpr double kHalfRoot = 0x1.6a09e667f3bcdp-1;  // sqrt(1/2)
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  const double u = (static_cast<double>(word) + 0.5) * 0x1p-64;
  const double rest = (static_cast<double>(~word) + 0.5) * 0x1p-64;
  const auto bits = std::bit_cast<std::uint64_t>(u);
  int k = 1022 - static_cast<int>(bits >> 52);
  double m = std::bit_cast<double>((bits & 0xfffffffffffffU) | 0x3fe0000000000000U);  // >= 1/2
  if (m < kHalfRoot) {
    m *= 2.0;
    ++k;
  }
  const double s = (k == 0 ? rest : 1.0 - m) / (1.0 + m);
  const double q = s * s;
  double sum = 1.0 / 17;
  sum = sum * q + 1.0 / 15;
  sum = sum * q + 1.0 / 13;
  sum = sum * q + 1.0 / 11;
  sum = sum * q + 1.0 / 9;
  sum = sum * q + 1.0 / 7;
  sum = sum * q + 1.0 / 5;
  sum = sum * q + 1.0 / 3;
  sum = sum * q + 1.0;
  const double time = k * kLn2 + 2.0 * s * sum;
  return {time / weight * (1.0 - kMargin), (time + 0x1p-64) / weight * (1.0 + kMargin)};
}

/// Returns the number of bits that the first weights of a tournament lack, by the total weight of
/// the survivors.
FAIRDRAW_HOST_DEVICE inline int tournament_shift(uint128_t total) {
  constexpr int kBits = 62;  // of the sum of all weights
  const auto high = static_cast<std::uint64_t>(total >> 64);
  const auto low = static_cast<std::uint64_t>(total);
  const int bits = high != 0 ? 128 - leading_zeros(high) : low != 0 ? 64 - leading_zeros(low) : 0;
  return bits > kBits ? bits - kBits : 0;
}

/// Returns the part of the weights, in units of 2^-64, that a layer leaves to tokens with a value
/// of 0. `total` is the sum of all weights, not 0, and `ones` the sum of those with a value of 1.
FAIRDRAW_HOST_DEVICE inline std::uint64_t share_of_zeros(std::uint64_t total, std::uint64_t ones) {
  constexpr double kLimit = 1.0 - 0x1p-53;
  const double share = static_cast<double>(total - ones) / static_cast<double>(total);
  return static_cast<std::uint64_t>((share < kLimit ? share : kLimit) * 0x1p64);
}

/// Returns a weight after a layer, of a token with the value `is_one`.
FAIRDRAW_HOST_DEVICE inline std::uint64_t weight_after_layer(std::uint64_t weight, bool is_one,
                                                             std::uint64_t share) {
  return multiply_high(weight, share) + (is_one ? weight : 0);
}

/// Returns the value of a word in a layer, which counts from 1.
FAIRDRAW_HOST_DEVICE inline bool is_one_in_layer(std::uint64_t word, int layer) {
  return ((word >> (64 - layer)) & 1U) != 0;
}

/// Checks a watermark and what sample_marked needs of the request, which has been checked.
Error check_watermark(const SampleRequest& request, const Watermark& watermark);

/// Checks a text, its keys and its rule.
Error check_watermark_text(const WatermarkText& text);

Error check_watermark_rule(const WatermarkRule& rule);

}  // namespace fairdraw
