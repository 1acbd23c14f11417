// Families of logits, computed with integer and IEEE operations only, so that every machine,
// compiler and instruction set gives the same bits. Hashes of the generated bits are stored with
// the tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/inputs/narrow_floats.h"

namespace fairdraw::harness {

/// The families of logits. The table in families.cpp says for each name which difficulty the family
/// tests.
enum class Family {
  gaussian,        ///< N(0, 1): flat; a nucleus of 0.95 has three quarters of the vocabulary
  gaussian_wide,   ///< N(0, 2^2)
  zipf,            ///< -ln(rank), with ranks in a pseudorandom order of ids
  peaked,          ///< N(0, 2^2), with 64 ids raised by an exponential of mean 4
  flat,            ///< N(0, 0.01^2): all values nearly equal, but different
  all_equal,       ///< one value
  ties_at_k,       ///< groups of 3, 9, 36, ... equal values: usual cuts fall inside a group
  mass_exactly_p,  ///< dyadic probabilities whose partial sums are exactly 1/2, 3/4, 7/8, ...
  dyadic,          ///< integer logits: at T = 0x1.715476p0 all weights are powers of two
  subnormal,       ///< subnormal float32 values of both signs
  masked,          ///< N(0, 1), with most ids at -inf
  single_support,  ///< one finite value, all others -inf
  huge_range,      ///< values over the whole exponent range of float32
  all_negative,    ///< gaussian - 100
  bf16_rounded,    ///< values of N(0, 2^2) rounded to bfloat16: many ties
  head_and_tail,   ///< one largest token, and all others in a tail 18 below it
  tile_ends,       ///< most mass at the ends of vectors, tiles and the row; the rest 12 below
  signed_zeros,    ///< a third of the ids ties at the maximum, as +0 or -0; all others are below 0
  few_allowed,     ///< N(0, 1) at 2 to 9 ids, all others -inf, as grammars give
};

std::span<const Family> all_families();
const char* to_string(Family family);
/// Returns a line that says which errors of samplers the family provokes.
const char* description(Family family);
/// Returns the family of the name `name`. Throws UsageError with the closest name if there is no
/// such family.
Family family_from_name(std::string_view name);

/// Fills `row`, whose size is the vocabulary size, with row number `row_number` of the family's
/// stream `seed`. The row depends only on these four arguments; the caller's rounding mode, FTZ and
/// DAZ have no effect. The largest logit is never at id 0 if the row has two different values.
/// Throws UsageError if the row is empty or has more than kMaxVocab values.
void generate_row(Family family, std::uint64_t seed, std::uint64_t row_number,
                  std::span<float> row);

}  // namespace fairdraw::harness
