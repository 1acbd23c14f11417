// Integer weights of logits: EXP2FIX.
//
// Contract. The weight of a token with logit x in a row whose largest allowed logit is x_max, at
// temperature T, is EXP2FIX((x - x_max) * c), c = logit_scale(T): a subtraction and a product in
// float32, each rounded once. EXP2FIX maps y <= 0 to floor(2^y * 2^40) up to the error below;
// EXP2FIX(0) = EXP2FIX(-0) = 2^40, the largest weight; -inf gives 0.
//
// Algorithm. y' = max(y, -63), n = floor(y'), f = y' - n in [0, 1] (1 only by rounding, when y is
// a tiny negative number). The polynomial of degree 5 is the minimax fit of 2^f in relative error
// (8.3e-8) under p(0) = 1 and p(1) = 2, its coefficients rounded to float32, evaluated by Horner
// with one fused multiply-add a step. It gives a float in [1, 2]; n + 40 is added to its
// exponent and the result is truncated to an integer. The coefficients are part of the
// specification: change one and every token may change.
//
// Numerics. Over every float32 of the domain the relative error of 2^y is at most 1.72e-7
// (2^-22.4), and truncation loses less than one unit, 2^-40: shown by enumeration in the tests,
// against 2^-21 + 2^(|y| - 40). Rounding of x - x_max, of c and of their product add at most
// 3 * 2^-24 * ln 2 * |y|.
//
// Determinism. IEEE operations with one rounding, to nearest, with subnormals: callers set the
// floating-point environment (kernels/cpu/float_environment.h). Sums of weights are uint64, so
// any order gives the same sum; at most 2^60 for kMaxVocab tokens.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/tile_weights.h"  // logit_scale

namespace fairdraw {

inline constexpr int kWeightBits = 40;
inline constexpr std::uint64_t kLargestWeight = std::uint64_t{1} << kWeightBits;

/// Below this 2^y * 2^40 < 1: far enough that the weight is 0, near enough for the exponent.
inline constexpr float kSmallestOctave = -63.0F;

/// Coefficients of 2^f on [0, 1], of f^0 to f^5.
inline constexpr float kExp2Coefficients[6] = {1.0F,           0x1.62e4d4p-1F, 0x1.ebd78ap-3F,
                                               0x1.c94e1ep-5F, 0x1.2677e0p-7F, 0x1.ed113ep-10F};

/// 2^f for f in [0, 1], by Horner. (Spelled out, because a device has no host array to index.)
FAIRDRAW_HOST_DEVICE inline float exp2_polynomial(float f) {
  constexpr float c0 = kExp2Coefficients[0];
  constexpr float c1 = kExp2Coefficients[1];
  constexpr float c2 = kExp2Coefficients[2];
  constexpr float c3 = kExp2Coefficients[3];
  constexpr float c4 = kExp2Coefficients[4];
  constexpr float c5 = kExp2Coefficients[5];
  return std::fma(std::fma(std::fma(std::fma(std::fma(c5, f, c4), f, c3), f, c2), f, c1), f, c0);
}

/// The weight in units of 2^-40, not yet truncated: a float in [0, 2^40].
FAIRDRAW_HOST_DEVICE inline float exp2_scaled(float y) {
  const float octaves = y < kSmallestOctave ? kSmallestOctave : y;
  const float whole = std::floor(octaves);
  const float fraction = octaves - whole;
  const float power = exp2_polynomial(fraction);
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(whole) + kWeightBits);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(power) + (exponent << 23));
}

/// The weight of y <= 0.
FAIRDRAW_HOST_DEVICE inline std::uint64_t exp2fix(float y) {
  return static_cast<std::uint64_t>(exp2_scaled(y));
}

}  // namespace fairdraw
