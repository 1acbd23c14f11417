// Tile weights are enumerated: for every remainder of an octave, for every logit at several
// temperatures, and for every probability.
//
// The test cannot detect errors at temperatures that are not listed. tile_weights.h proves the
// general case: float and double arithmetic round the same sum once. Sanitized code is about 20
// times slower, so FAIRDRAW_REDUCED tests only every 1021st value (a prime, so that all low bits
// occur).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "common/tile_weights.h"
#include "reference/integer_model.h"
#include "reference/tile_bound.h"
#include "tests/sample/reduced.h"

// An x86-64 build targets the oldest x86-64 processors, on which a fused multiply-add is a library
// call. Each loop is also compiled for newer processors and selected at run time, which takes
// seconds instead of minutes.
#if defined(__x86_64__)
#define FAIRDRAW_FOR_AVX2 [[gnu::target("avx2,fma")]]
#else
#define FAIRDRAW_FOR_AVX2
#endif

namespace fairdraw::suites {
namespace {

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

std::uint32_t stride() { return is_reduced() ? 1021 : 1; }

constexpr std::uint32_t kChunk = 1 << 20;

/// Returns the sum of sweep(first) over all chunks of bit patterns below `end`; the chunks run in
/// parallel. Precondition: `end` is a multiple of kChunk.
template <typename Sweep>
std::uint64_t add_up(std::uint64_t end, Sweep sweep) {
  std::uint64_t sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
  for (std::uint64_t first = 0; first < end; first += kChunk) {
    sum += sweep(static_cast<std::uint32_t>(first));
  }
  return sum;
}

// --- 2^r -----------------------------------------------------------------------------------------

struct Significands {
  std::uint64_t checked = 0, other_than_model = 0, large_steps_down = 0;
  std::uint32_t smallest = ~0U, largest = 0;
  double error = 0;  // relative to 2^r

  void add(const Significands& other) {
    checked += other.checked;
    other_than_model += other.other_than_model;
    large_steps_down += other.large_steps_down;
    smallest = std::min(smallest, other.smallest);
    largest = std::max(largest, other.largest);
    error = std::max(error, other.error);
  }
};

/// Checks the remainders of one sign, in the order of growing magnitude. Every 61st remainder is
/// also compared with the model, which is slow.
[[gnu::always_inline]] inline Significands sweep_significands(std::uint32_t sign,
                                                              std::uint32_t first,
                                                              std::uint32_t last,
                                                              std::uint32_t step) {
  Significands seen;
  std::uint32_t nearer = exp2_significand(std::bit_cast<float>(first | sign));
  for (std::uint32_t bits = first; bits < last; bits += step) {
    const auto r = std::bit_cast<float>(bits | sign);
    const std::uint32_t m = exp2_significand(r);
    // exp2 in float64 has a relative error of at most 2^-52.
    const double exact = std::exp2(static_cast<double>(r)) * 0x1p23;
    seen.error = std::max(seen.error, std::abs(static_cast<double>(m) - exact) / exact);
    seen.smallest = std::min(seen.smallest, m);
    seen.largest = std::max(seen.largest, m);
    if (bits % 61 == 0 && m != reference::octave_significand(r)) ++seen.other_than_model;
    // Weights grow with the logit, except that they may step down by one unit.
    if (sign == 0 ? m + 1 < nearer : m > nearer + 1) ++seen.large_steps_down;
    nearer = m;
    ++seen.checked;
  }
  return seen;
}

FAIRDRAW_FOR_AVX2 Significands sweep_significands_avx2(std::uint32_t sign, std::uint32_t first,
                                                       std::uint32_t last, std::uint32_t step) {
  return sweep_significands(sign, first, last, step);
}

TEST(Exp2Significand, OfEveryRemainderIsInItsRangeAndWithinItsBound) {
  constexpr std::uint32_t kHalf = std::bit_cast<std::uint32_t>(0.5F);
  // For |r| < 2^-26, 2^r - 1 is below 2^-26, less than half of a unit of 2^-23.
  constexpr std::uint32_t kConstant = std::bit_cast<std::uint32_t>(0x1p-26F);
  const bool avx2 = has_avx2();
  Significands seen;
  for (const std::uint32_t sign : {0U, 0x80000000U}) {
    std::uint64_t other_than_one = 0;
    for (std::uint32_t bits = 0; bits < kConstant; bits += 4093 * stride()) {
      other_than_one += exp2_significand(std::bit_cast<float>(bits | sign)) != 1U << 23 ? 1U : 0U;
    }
    EXPECT_EQ(other_than_one, 0U);
#pragma omp parallel for schedule(dynamic)
    for (std::uint32_t first = kConstant; first <= kHalf; first += kChunk) {
      const std::uint32_t last = std::min(first + kChunk, kHalf + 1);
      const Significands part = avx2 ? sweep_significands_avx2(sign, first, last, stride())
                                     : sweep_significands(sign, first, last, stride());
#pragma omp critical
      seen.add(part);
    }
  }
  EXPECT_GE(seen.checked, 2 * std::uint64_t{kHalf - kConstant} / stride());
  EXPECT_EQ(seen.other_than_model, 0U);
  EXPECT_EQ(seen.large_steps_down, 0U);
  EXPECT_LE(seen.error, reference::kSignificandError);
  EXPECT_GE(seen.smallest, 5931641U);
  EXPECT_LE(seen.largest, 11863282U);
  // At the ends, the significand is that of 2^(-1/2) and of 2^(1/2), a factor of 2 apart; at 0, it
  // is that of 2^0.
  EXPECT_EQ(exp2_significand(-0.5F), 5931641U);
  EXPECT_EQ(exp2_significand(0.5F), 11863282U);
  EXPECT_EQ(exp2_significand(0.0F), 1U << 23);
  EXPECT_EQ(exp2_significand(-0.0F), 1U << 23);
  RecordProperty("largest_relative_error", fmt::format("{:.4e}", seen.error));
}

// --- Float and double ----------------------------------------------------------------------------

/// The range of logits to which the first condition applies. Two conditions hold for one logit and
/// every tile whose maximum M is within kFloatOctaves.
///   near   A token that may weigh something in such a tile has the octave and the significand of
///          the definition. M c is within 2^21 (1 + 2^-24) of 0, so N is within 2^21, and such a
///          token is at most 63 octaves below N: y is in [-2^21 - 63.5, 2^21 + 0.5].
///   far    A token below that weighs 0 in each such tile, and so do -inf and NaN.
/// A tile with these logits contains no higher logit.
constexpr double kLowest = -0x1p21 - 63.5;
constexpr double kHighest = 0x1p21 + 0.5;

/// Returns whether the shift s is at least 64 for the lowest N, and does not wrap around for the
/// highest.
[[gnu::always_inline]] inline bool is_weightless(float origin) {
  constexpr auto kLowestOrigin = std::bit_cast<std::uint32_t>(kOctaveOrigin - kFloatOctaves);
  constexpr auto kHighestOrigin = std::bit_cast<std::uint32_t>(kOctaveOrigin + kFloatOctaves);
  const std::uint32_t below = kLowestOrigin - std::bit_cast<std::uint32_t>(origin);
  return (below >= kTileOctaves) & (below <= ~std::uint32_t{0} - (kHighestOrigin - kLowestOrigin));
}

// Returns whether a logit violates the conditions. The function has no branches, so that the
// compiler vectorises it.
[[gnu::always_inline]] inline bool is_wrong(float logit, float scale) {
  const double octaves = static_cast<double>(logit) * static_cast<double>(scale);
  const FloatOctaves token = float_octaves_of(logit, scale);
  const Octaves exact = octaves_of(logit, scale);
  const bool equal = (static_cast<double>(token.origin - kOctaveOrigin) == exact.whole) &
                     (token.significand == exact.significand);
  const bool is_near = octaves >= kLowest;  // false for NaN
  const bool is_above = octaves > kHighest;
  return !(is_above | (is_near & equal) | (!is_near & is_weightless(token.origin)));
}

/// Returns the number of wrong logits in a chunk. The logits of a chunk have one sign and growing
/// magnitude, so that all are outside the range if the first one is.
[[gnu::always_inline]] inline std::uint32_t count_wrong(float scale, std::uint32_t first,
                                                        std::uint32_t step) {
  const auto logit_at = [=](std::uint32_t i) { return std::bit_cast<float>(first + i * step); };
  const std::uint32_t count = kChunk / step;
  const double octaves = static_cast<double>(logit_at(0)) * static_cast<double>(scale);
  if (octaves > kHighest && std::isfinite(logit_at(0))) return 0;
  std::uint32_t wrong = 0;
  if (octaves < kLowest) {
    for (std::uint32_t i = 0; i < count; ++i) {
      wrong += is_weightless(float_octave_origin(logit_at(i), scale)) ? 0U : 1U;
    }
    return wrong;
  }
  for (std::uint32_t i = 0; i < count; ++i) wrong += is_wrong(logit_at(i), scale) ? 1U : 0U;
  return wrong;
}

FAIRDRAW_FOR_AVX2 std::uint32_t count_wrong_avx2(float scale, std::uint32_t first,
                                                 std::uint32_t step) {
  return count_wrong(scale, first, step);
}

TEST(FloatOctaves, AreThoseOfTheDefinitionForEveryLogit) {
  const bool avx2 = has_avx2();
  // The list has a temperature with c = 1, a common temperature, and both ends of the range.
  for (const float temperature : {0x1.715476p0F, 0.7F, 0x1p-126F, 0x1p64F}) {
    const float scale = logit_scale(temperature);
    ASSERT_EQ(scale, reference::octaves_per_logit(temperature));
    const std::uint64_t wrong = add_up(std::uint64_t{1} << 32, [&](std::uint32_t first) {
      return avx2 ? count_wrong_avx2(scale, first, stride()) : count_wrong(scale, first, stride());
    });
    EXPECT_EQ(wrong, 0U) << std::hexfloat << temperature;
  }
}

// --- Probabilities -------------------------------------------------------------------------------

/// Returns whether octave and significand do not give the exact probability, or whether the
/// significand cannot be that of a float.
[[gnu::always_inline]] inline bool is_inexact(std::uint32_t bits) {
  const Octaves token = octaves_of_probability(std::bit_cast<float>(bits));
  const auto whole = static_cast<std::int32_t>(token.whole);
  const auto significand = static_cast<std::int32_t>(token.significand);
  // The unit is a normal double, so that the product is exact.
  const auto unit = std::bit_cast<double>(static_cast<std::uint64_t>(whole + (1023 - 23)) << 52);
  const bool exact =
      static_cast<double>(significand) * unit == static_cast<double>(std::bit_cast<float>(bits));
  const bool normal = (significand >= 1 << 23) & (significand < 1 << 24);
  const bool subnormal = (significand < 1 << 23) & (whole == -126);
  return !(exact & (normal | subnormal));
}

[[gnu::always_inline]] inline std::uint32_t count_inexact(std::uint32_t first, std::uint32_t step) {
  std::uint32_t inexact = 0;
  const std::uint32_t count = kChunk / step;
  for (std::uint32_t i = 0; i < count; ++i) inexact += is_inexact(first + i * step) ? 1U : 0U;
  return inexact;
}

FAIRDRAW_FOR_AVX2 std::uint32_t count_inexact_avx2(std::uint32_t first, std::uint32_t step) {
  return count_inexact(first, step);
}

TEST(ProbabilityOctaves, AreEveryProbabilityExactly) {
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  static_assert(kInfinity % kChunk == 0);
  const bool avx2 = has_avx2();
  const std::uint64_t inexact = add_up(kInfinity, [avx2](std::uint32_t first) {
    return avx2 ? count_inexact_avx2(first, stride()) : count_inexact(first, stride());
  });
  EXPECT_EQ(inexact, 0U);
}

}  // namespace
}  // namespace fairdraw::suites
