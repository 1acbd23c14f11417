// Makes rows of probabilities from rows of logits.
#pragma once

#include <span>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Replaces each logit by its probability at `temperature` (0 counts as 1, as in reports of greedy
/// rows); the probability is computed in float64 and rounded to `dtype`, and a logit of -inf
/// gives 0. Precondition: the row has no NaN and no +inf.
///
/// The weights are 2^((x - max) c) with c = (float)(log2(e) / T), as in the specification. If c is
/// 1 and all weights are powers of two, they are divided by the power of two at or above their sum,
/// so that they stay powers of two; the operations on probabilities accept any scale. In all other
/// cases the weights are divided by their sum.
void to_probabilities(std::span<float> row, float temperature, DType dtype);

}  // namespace fairdraw::harness
