// Log-probabilities of a row in real arithmetic, and its tokens in the order of a full stable sort:
// a second implementation of fairdraw/log_probabilities.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fairdraw/log_probabilities.h"
#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// The log-probabilities that a sampler may report for a row. Tokens without a value have
/// log-probability -inf.
struct RealLogprobs {
  std::vector<double> value;        ///< [vocab] in real arithmetic (logits: the exact float32)
  std::vector<double> bound;        ///< [vocab] maximum error of a report; 0 for logits
  std::vector<std::int32_t> order;  ///< tokens with a value, by decreasing value, then id

  /// Returns a token's place in the order, from 1 on, or the number of values that are at least its
  /// own; 0 if it has no value. Values are compared as logits, exactly.
  std::int32_t rank(std::int32_t token, RankRule rule) const;
  std::vector<float> logits;  ///< [vocab] logits of the row
};

/// Computes one row in O(vocab log vocab). `logits` are the caller's in raw modes; in processed
/// modes they are the processed row, with banned tokens at -inf. `kept` [vocab] marks the survivors
/// of the filters; empty means all (raw modes pass none). `temperature` is the row's temperature;
/// raw modes do not use it. `bound` bounds the errors of weights; the default is the bound of
/// fairdraw's kernels.
///
/// The sum is accumulated in long double with compensation. The error of the long double sum, about
/// 2^-63 per term of a sum of positive numbers, is covered by the 2^-47 of the bound.
RealLogprobs real_log_probabilities(std::span<const float> logits,
                                    std::span<const std::uint8_t> kept, LogprobsMode mode,
                                    float temperature, const WeightBound& bound = {});

}  // namespace fairdraw::reference
