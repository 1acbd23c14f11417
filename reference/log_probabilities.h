// Computes the log-probabilities of a row in real arithmetic, and orders its tokens by a full
// stable sort: a second implementation of fairdraw/log_probabilities.h.
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
  std::vector<double> value;        ///< [vocab] in real arithmetic (for logits: the exact float32)
  std::vector<double> bound;        ///< [vocab] maximum error of a reported value; 0 for logits
  std::vector<std::int32_t> order;  ///< tokens with a value, by decreasing value, then by id

  /// Returns a token's place in the order, counted from 1, or the number of values that are at
  /// least the token's own value, as `rule` says; 0 if the token has no value. Ranks compare
  /// logits, which are exact.
  std::int32_t rank(std::int32_t token, RankRule rule) const;
  std::vector<float> logits;  ///< [vocab] the logits of the row
};

/// Computes one row in O(vocab log vocab). In raw modes `logits` are the caller's; in processed
/// modes `logits` are those of the processed row, with -inf for banned tokens. `kept` [vocab] marks
/// the tokens that the filters keep; an empty `kept` means all tokens (raw modes pass an empty
/// one). `temperature` is the row's temperature, which raw modes do not use. `bound` is the error
/// bound on weights; the default is the bound of fairdraw's kernels.
///
/// The sum is accumulated in long double with compensation. The rounding error of the long double
/// sum, about 2^-63 per term because all terms are positive, is covered by the 2^-47 of the bound.
RealLogprobs real_log_probabilities(std::span<const float> logits,
                                    std::span<const std::uint8_t> kept, LogprobsMode mode,
                                    float temperature, const WeightBound& bound = {});

}  // namespace fairdraw::reference
