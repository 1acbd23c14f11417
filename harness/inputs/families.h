// Families of logits, made with integer and IEEE operations only, so that every machine, compiler
// and instruction set makes the same bits. Hashes of the bits are stored with the tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/inputs/narrow_floats.h"

namespace fairdraw::harness {

/// The families of logits. families.cpp says next to each name which difficulty the family tests.
enum class Family {
  gaussian,        ///< N(0, 1): flat; a nucleus of 0.95 is three quarters of the vocabulary
  gaussian_wide,   ///< N(0, 2^2)
  zipf,            ///< -ln(rank), ranks in a pseudorandom order of ids
  peaked,          ///< N(0, 2^2), 64 ids raised by an exponential of mean 4
  flat,            ///< N(0, 0.01^2): all nearly equal, all different
  all_equal,       ///< one value
  ties_at_k,       ///< groups of 3, 9, 36, 144, ... equal values: the usual cuts fall inside
  mass_exactly_p,  ///< dyadic probabilities whose partial sums are 1/2, 3/4, 7/8, ... exactly
  dyadic,          ///< integer logits: at T = 0x1.715476p0 all weights are powers of two
  subnormal,       ///< subnormal values of both signs
  masked,          ///< gaussian with most ids at -inf
  single_support,  ///< one finite value, the rest -inf
  huge_range,      ///< values across the whole exponent range of float32
  all_negative,    ///< gaussian - 100
  bf16_rounded,    ///< gaussian_wide rounded to bfloat16: ties everywhere
  head_and_tail,   ///< one head and a tail at a gap of 18
  tile_ends,       ///< most mass at the ends of vectors, tiles and the row; the rest at a gap of 12
  signed_zeros,    ///< a third of the ids ties at the maximum, as +0 or -0; the rest is below 0
  few_allowed,     ///< gaussian at 2 to 9 ids, the rest -inf, as grammars leave them
};

std::span<const Family> all_families();
const char* to_string(Family family);
/// Returns a line that tells which sampler errors the family of logits provokes.
const char* description(Family family);
/// Returns the family `name`. Throws UsageError with the closest name if there is none.
Family family_from_name(std::string_view name);

/// Fills `row` (its size is the vocabulary) with row number `row_number` of the family's stream
/// `seed`. The row is a pure function of these four arguments; the caller's rounding mode, FTZ and
/// DAZ have no effect. The largest logit is never at id 0 if the row has two different values.
/// Throws UsageError for an empty row or more than kMaxVocab values.
void generate_row(Family family, std::uint64_t seed, std::uint64_t row_number,
                  std::span<float> row);

}  // namespace fairdraw::harness
