// The only generator of adversarial rows and parameters, for differential tests on both backends
// and for the fuzzer. The same dice give the same row on every machine, except for the last place
// of std::exp2.
//
// Rows: the families of families.h, some rounded so that every cut falls inside a tie, some with
// zeros of both signs; equal rows, two levels, grids, adjacent floats, octaves, random bits,
// slopes, one token far above the others; runs of banned tokens; dyadic probabilities at any scale,
// with zeros of both signs. Bad rows: NaN, infinities, negative probabilities, no token left.
// Parameters: off, at the ends of their ranges, as engines use them, and aimed at the row (k at the
// edge of a tie, top_p and min_p met exactly). Bad parameters: beyond each end of their range, NaN,
// infinities.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/types.h"
#include "harness/inputs/dice.h"
#include "reference/integer_model.h"

namespace fairdraw::harness {

/// Returns a vocabulary size: mostly small, or near SIMD and tile widths.
std::int64_t random_vocab(Dice& dice, std::int64_t max_vocab);

/// Generates the logits of a row, each exactly representable in dtype. About one row in sixteen is
/// bad.
std::vector<float> random_logits(Dice& dice, std::int64_t vocab, DType dtype = DType::float32);
/// Generates probabilities in the same way; they do not sum to 1.
std::vector<float> random_probabilities(Dice& dice, std::int64_t vocab,
                                        DType dtype = DType::float32);

struct ParameterOptions {
  bool probabilities = false;  ///< the row holds probabilities, not logits
  bool faults = true;          ///< a parameter is out of range in one row of twenty
  bool dense = false;          ///< most filters are on, so that a third of the rows have all three
};

/// Generates parameters for a row. Half of the parameters aim at ties, gaps and masses of the row,
/// and may change the row.
reference::RowParameters random_parameters(Dice& dice, std::vector<float>& row,
                                           const ParameterOptions& options = {});

/// Generates the bits of a row's allowed tokens: all, whole blocks, a single token, or random. Some
/// bits beyond the vocabulary are set, because they must have no effect.
std::vector<std::uint32_t> random_allowed(Dice& dice, std::int64_t vocab);

/// Generates row numbers for one to `most` outputs. With `faults`, some indices are outside the
/// rows.
std::vector<std::int32_t> random_indices(Dice& dice, std::int64_t rows, std::uint64_t most,
                                         bool faults);

/// Generates a seed or an offset: any bits, or the ends of 32 and 64 bits.
std::uint64_t random_seed(Dice& dice);

}  // namespace fairdraw::harness
