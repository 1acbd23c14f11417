// Rows of probabilities, made of rows of logits.
#pragma once

#include <span>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Replaces each logit by its probability at `temperature` (0: 1, as the reports of greedy rows),
/// computed in float64 and rounded to `dtype`; -inf becomes 0. Logits hold neither NaN nor +inf.
///
/// Weights are 2^((x - max) c) with c = (float)(log2(e) / T), as the specification has them. Where
/// c is 1 and all weights are powers of two they are divided by the power of two at or above their
/// sum, and stay powers of two; the operations on probabilities take them in any scale. Everything
/// else is divided by the sum.
void to_probabilities(std::span<float> row, float temperature, DType dtype);

}  // namespace fairdraw::harness
