// Log-probabilities of a row in real arithmetic, and its tokens in order by a full stable sort:
// what fairdraw/log_probabilities.h promises, written a second time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fairdraw/log_probabilities.h"
#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// What a sampler may report of a row. A token without a value has -inf there.
struct RealLogprobs {
  std::vector<double> value;        ///< [vocab] in real arithmetic (logits: the exact float32)
  std::vector<double> bound;        ///< [vocab] how far a report may be from it; logits: 0
  std::vector<std::int32_t> order;  ///< tokens that have a value, value descending, then id

  /// Place of a token in the order, from 1 on, or how many values are at least its own; 0 where it
  /// has none. Values are compared as logits: exactly.
  std::int32_t rank(std::int32_t token, RankRule rule) const;
  std::vector<float> logits;  ///< [vocab] of the row
};

/// One row. `logits`: raw modes: the caller's; processed ones: the processed row, banned tokens
/// -inf. `kept`: [vocab] the survivors of the filters, or empty: all (raw modes pass none).
/// `temperature`: of the row; raw modes do not use it. `bound` is that on weights: the default is
/// that of fairdraw's kernels. O(vocab log vocab).
///
/// The sum is long double and compensated: its own error, some 2^-63 a term of a sum of positive
/// numbers, is covered by the 2^-47 of the bound.
RealLogprobs real_log_probabilities(std::span<const float> logits,
                                    std::span<const std::uint8_t> kept, LogprobsMode mode,
                                    float temperature, const WeightBound& bound = {});

}  // namespace fairdraw::reference
