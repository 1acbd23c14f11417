// Weights of tokens as integers in octaves, which are summed by tiles of 256 ids and do not depend
// on the row's maximum.
//
// Definition. Let y = x c be a logit in octaves (c = logit_scale(T)), n the integer nearest to y
// (ties to even), and r = y - n rounded to float32, with |r| <= 1/2. Then m = exp2_significand(r)
// is 2^r 2^23 as an integer. So the weight of a token is m 2^(n - 23).
//
//   tile   the ids 256 t ... 256 t + 255, regardless of the row's address and its reader. M_t is
//          its largest allowed logit, N_t = n(M_t). A token s = N_t - n octaves below counts
//          v = floor(m 2^(32 - s)), or 0 if s >= 64; S_t is the sum of v, below 2^63.5.
//   row    E is the largest N_t. A tile gap = E - N_t octaves below counts S_t 2^(48 - gap), or 0
//          if gap >= 49; each v in it is shifted likewise. Z is the sum over tiles, below 2^124.
//   draw   R = floor(word Z / 2^64). The token's tile is the first whose inclusive prefix of row
//          weights exceeds R. Within the tile, (R - prefix before) >> (48 - gap) is compared with
//          prefixes of v in id order.
//
// Written probabilities. The probability of a survivor E - n octaves below the row's maximum is
// written as m 2^(80 - (E - n)) / Z, where Z is the sum of the survivors' weights. The dividend is
// the survivor's weight in the row's unit, without the bits that the two shifts cut off. So even a
// token that can never be drawn has its small probability. The dividend is exact as a double. Z and
// the quotient are rounded to double, and the result is rounded to float32, where subnormal numbers
// are kept.
//
// A tile without an allowed token has no octave, and its sum is 0. The entry of a tile in an index
// is order_key(M_t) and S_t; the octave is not stored, but computed again from M_t. The sums are
// integers, so neither order nor grouping changes a result, and tiles from any blocks, threads or
// shards can be merged.
//
// From probabilities, m and n are the significand of the float (24 bits, or 23 for a subnormal
// number) and its exponent. So rows of probabilities that are multiples of a power of two are exact
// over 31 octaves, and S_t is below 2^64.
//
// Numerics. The weight of a token whose real value is d octaves below the row's maximum has a
// relative error of at most the following bound, apart from a factor common to all tokens.
//     2^-22 + 2^-24 ln2 d + 2^(d - 48)
// The bound covers the polynomial with the rounding of m (at most 1.96e-7 for every r), the
// rounding of r and c, and the bits that the two shifts cut off.
// If a constant is added to all logits of a row, the bound still holds, because x c is exact. So
// the distribution of a row differs from softmax by at most 3.5e-7 in total variation, for 2^20
// tokens; reference/tile_bound.h derives both bounds. Equal logits have equal weights unless they
// are more than 32 octaves below the maximum of one of their tiles. A written probability does not
// have the error of the third term, but has the error of the sum. Its relative error is at most
// 2^-21 + 2^-24 ln2 (d + log2 V) + V 2^-48, and the rounding to float32 adds to this. This bound is
// derived in reference/tile_bound.h, too.
//
// Float and double. The function octaves_of is the definition, in doubles, where x c is exact. If
// the maximum of a tile is within kFloatOctaves of 0, float_octaves_of gives the same m and s for
// every x in the tile. Its sum x c + 1.5 2^23 is rounded once, by the fused multiply-add, to the
// nearest integer. The bits of this sum count octaves, so s is an unsigned difference of bits. If x
// is so small that the sum leaves its binade (the range between two powers of two), or if x is
// -inf, s is at least 64, so that the weight is 0.
//
// Determinism. Every IEEE operation is rounded once, to nearest, with subnormal numbers; the
// callers set the floating-point environment. The coefficients of the polynomial are part of the
// specification.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "fairdraw/tile_index.h"  // kTileSize

namespace fairdraw {

/// Number of octaves below a tile's maximum at which the weight of a token becomes 0.
inline constexpr std::uint32_t kTileOctaves = 64;

/// Number of fraction bits that the weight v has below the last bit of m.
inline constexpr int kTileBits = 32;

/// Number of octaves below the row's maximum up to which a tile has a weight in the row; S_t is
/// scaled by 2^kRowBits.
inline constexpr int kRowBits = 48;

/// Number of octaves below the row's maximum at which a written probability becomes 0. At this
/// distance m is below 2^24 and Z above 2^102, so the quotient is below 2^-254, and the smallest
/// subnormal float32 is 2^-149.
inline constexpr std::uint32_t kWrittenOctaves = 256;

/// Bound of |fl32(M_t c)| up to which float arithmetic gives the bits of the definition: within it,
/// x c + kOctaveOrigin is in [2^23, 2^24), where the floats are the integers.
inline constexpr float kFloatOctaves = 0x1p21F;
inline constexpr float kOctaveOrigin = 0x1.8p23F;

/// Returns c = log2(e) / T, computed in double and rounded to float32, for T in [2^-126, 2^64].
FAIRDRAW_HOST_DEVICE inline float logit_scale(float temperature) {
  return static_cast<float>(0x1.71547652b82fep0 / static_cast<double>(temperature));
}

/// Returns 2^r 2^23 for |r| <= 1/2. The result is in [5931641, 11863282], and is 2^23 for r = 0.
/// The polynomial is the minimax fit of (2^r - 1) / r for the relative error of 2^r, with
/// coefficients that are rounded to float32. The last step adds 3/2 instead of 1, so that the sum
/// stays between two powers of two, in [1, 2), where its bits count units of 2^-23.
FAIRDRAW_HOST_DEVICE inline std::uint32_t exp2_significand(float r) {
  float q = 0x1.5bda58p-10F;
  q = std::fma(q, r, 0x1.3ce8aep-7F);
  q = std::fma(q, r, 0x1.c6b6d8p-5F);
  q = std::fma(q, r, 0x1.ebf9c2p-3F);
  q = std::fma(q, r, 0x1.62e42ap-1F);
  return std::bit_cast<std::uint32_t>(std::fma(q, r, 1.5F)) - 0x3f400000U;
}

/// Value in octaves, which is 2^whole times a significand of 24 bits. The member `whole` is an
/// integer, stored as a double because a logit of 1e38 at T = 2^-126 has 2^253 octaves.
struct Octaves {
  double whole;
  std::uint32_t significand;
};

/// Returns n and m of a finite logit.
FAIRDRAW_HOST_DEVICE inline Octaves octaves_of(float logit, float scale) {
  const double y = static_cast<double>(logit) * static_cast<double>(scale);
  const double whole = std::rint(y);
  return {whole, exp2_significand(static_cast<float>(y - whole))};
}

/// Returns n and m of a finite probability above 0.
FAIRDRAW_HOST_DEVICE inline Octaves octaves_of_probability(float probability) {
  const auto bits = std::bit_cast<std::uint32_t>(probability);
  const std::uint32_t exponent = bits >> 23;
  const std::uint32_t fraction = bits & 0x7fffffU;
  if (exponent == 0) return {-126.0, fraction};
  return {static_cast<double>(static_cast<std::int32_t>(exponent) - 127), fraction | 0x800000U};
}

/// Numbers n and m as float arithmetic computes them; `origin` is kOctaveOrigin + n, whose bits
/// count octaves. The numbers are valid only relative to the maximum of a tile that satisfies
/// float_octaves_are_exact.
struct FloatOctaves {
  float origin;
  std::uint32_t significand;
};

/// Returns the octave N of the maximum of a tile, in the form of FloatOctaves::origin.
FAIRDRAW_HOST_DEVICE inline float float_octave_origin(float logit, float scale) {
  return std::fma(logit, scale, kOctaveOrigin);
}

FAIRDRAW_HOST_DEVICE inline FloatOctaves float_octaves_of(float logit, float scale) {
  const float origin = float_octave_origin(logit, scale);
  return {origin, exp2_significand(std::fma(logit, scale, -(origin - kOctaveOrigin)))};
}

FAIRDRAW_HOST_DEVICE inline bool float_octaves_are_exact(float tile_maximum, float scale) {
  return std::fabs(tile_maximum * scale) <= kFloatOctaves;
}

/// Returns the weight v of a token that is `below` octaves below its tile's maximum.
FAIRDRAW_HOST_DEVICE inline std::uint64_t tile_weight(std::uint32_t significand,
                                                      std::uint32_t below) {
  if (below >= kTileOctaves) return 0;
  return (static_cast<std::uint64_t>(significand) << kTileBits) >> below;
}

/// Returns the weight v of a token in a tile whose maximum has octave `tile_octave`.
FAIRDRAW_HOST_DEVICE inline std::uint64_t tile_weight(const Octaves& token, double tile_octave) {
  const double below = tile_octave - token.whole;
  return below < static_cast<double>(kTileOctaves)
             ? tile_weight(token.significand, static_cast<std::uint32_t>(below))
             : 0;
}

FAIRDRAW_HOST_DEVICE inline std::uint64_t float_tile_weight(const FloatOctaves& token,
                                                            float tile_origin) {
  return tile_weight(token.significand, std::bit_cast<std::uint32_t>(tile_origin) -
                                            std::bit_cast<std::uint32_t>(token.origin));
}

/// Returns the probability that is written for a survivor `below` octaves below the row's maximum;
/// `total` is the double nearest to Z.
FAIRDRAW_HOST_DEVICE inline float written_probability(std::uint32_t significand,
                                                      std::uint32_t below, double total) {
  if (below >= kWrittenOctaves) return 0.0F;
  const auto unit =
      std::bit_cast<double>(static_cast<std::uint64_t>(1023 + kTileBits + kRowBits - below) << 52);
  return static_cast<float>(static_cast<double>(significand) * unit / total);
}

/// Returns the probability that is written for a survivor of a row whose maximum has octave
/// `row_octave`.
FAIRDRAW_HOST_DEVICE inline float written_probability(const Octaves& token, double row_octave,
                                                      double total) {
  const double below = row_octave - token.whole;
  return below < static_cast<double>(kWrittenOctaves)
             ? written_probability(token.significand, static_cast<std::uint32_t>(below), total)
             : 0.0F;
}

/// Returns the same probability, computed with floats, whose arithmetic must be exact for the row's
/// maximum.
FAIRDRAW_HOST_DEVICE inline float float_written_probability(const FloatOctaves& token,
                                                            float row_origin, double total) {
  return written_probability(
      token.significand,
      std::bit_cast<std::uint32_t>(row_origin) - std::bit_cast<std::uint32_t>(token.origin), total);
}

/// Returns the left shift from the unit of a tile to the unit of the row, or -1 if the tile weighs
/// nothing in the row.
FAIRDRAW_HOST_DEVICE inline int row_shift(double row_octave, double tile_octave) {
  const double gap = row_octave - tile_octave;
  return gap <= static_cast<double>(kRowBits) ? kRowBits - static_cast<int>(gap) : -1;
}

/// Returns a weight v, or a tile's sum S_t, in the row's unit.
FAIRDRAW_HOST_DEVICE inline uint128_t row_weight(std::uint64_t tile_weight, int row_shift) {
  return row_shift < 0 ? uint128_t{0} : static_cast<uint128_t>(tile_weight) << row_shift;
}

}  // namespace fairdraw
