// The only generator of adversarial rows and parameters, for differential tests on both backends
// and for the fuzzer. Equal dice give the same row on every machine, except for the last place of
// std::exp2.
//
// Some rows come from the families of families.h; of these, some are rounded so that every cut
// falls inside a tie, and some get zeros of both signs. Other rows have equal values, two levels,
// grids, adjacent floats, octaves, random bits, slopes, one token far above the others, runs of
// banned tokens, or dyadic probabilities in any scale. The bad rows have NaN, infinities, negative
// probabilities, or no allowed token. The parameters are off, at the ends of their ranges, as
// engines use them, or chosen to fit the row (k at the edge of a tie, top_p and min_p met exactly).
// The bad parameters are beyond each end of their ranges, NaN, or infinite.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/types.h"
#include "harness/inputs/dice.h"
#include "reference/integer_model.h"

namespace fairdraw::harness {

/// Returns a vocabulary size, mostly small or near the widths of SIMD vectors and tiles.
std::int64_t random_vocab(Dice& dice, std::int64_t max_vocab);

/// Generates the logits of a row, each of which `dtype` represents exactly. About one row in
/// sixteen is invalid.
std::vector<float> random_logits(Dice& dice, std::int64_t vocab, DType dtype = DType::float32);
/// Generates the probabilities of a row in the same way; they do not sum to 1.
std::vector<float> random_probabilities(Dice& dice, std::int64_t vocab,
                                        DType dtype = DType::float32);

struct ParameterOptions {
  bool probabilities = false;  ///< the row has probabilities, not logits
  bool faults = true;          ///< one of twenty rows has a parameter out of range
  bool dense = false;          ///< most filters are on: a third of the rows have all three
};

/// Generates parameters for a row. Half of the parameters are chosen to meet ties, gaps and masses
/// of the row, and the function may change the row for this.
reference::RowParameters random_parameters(Dice& dice, std::vector<float>& row,
                                           const ParameterOptions& options = {});

/// Generates the bits of a row's allowed tokens: all tokens, whole blocks, a single token, or
/// random ones. Some bits beyond the vocabulary are set, because they must have no effect.
std::vector<std::uint32_t> random_allowed(Dice& dice, std::int64_t vocab);

/// Generates row numbers for one to `most` outputs. With `faults`, some indices are outside the
/// rows.
std::vector<std::int32_t> random_indices(Dice& dice, std::int64_t rows, std::uint64_t most,
                                         bool faults);

/// Generates a seed or an offset: any bits, or a value at the ends of 32 and 64 bits.
std::uint64_t random_seed(Dice& dice);

}  // namespace fairdraw::harness
