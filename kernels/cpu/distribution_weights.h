// Integer weights of two distributions over the same vocabulary, and the steps of speculative
// sampling that use these weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/wide_integers.h"
#include "cpu/passes/tile_passes.h"

namespace fairdraw::cpu {

/// Writes the weights of n values of a row (speculative.h). In the terms of tile_weights.h, a
/// weight is floor(m 2^(16 + n - E)), where E is the octave of the row's largest allowed value
/// `max`; it is at most 2^40. Values below `low` have the weight 0, and so have values equal to
/// `low` from position tie_end on. The weights do not depend on tiles, so x may be any part of the
/// row. Returns their sum.
std::uint64_t write_weights_of(const TilePasses& passes, const float* x, std::size_t n,
                               const WeightRule& rule, float max, float low, std::size_t tie_end,
                               std::uint64_t* weights);

/// Weights of all tokens of a row, which are 0 for tokens that the filters drop. The vector may be
/// longer than the vocabulary.
struct DistributionWeights {
  std::vector<std::uint64_t> weight;
  std::uint64_t total = 0;

  void make_room(std::size_t vocab) {
    if (weight.size() < vocab) weight.resize(vocab);
  }
};

/// Returns whether a token drawn from a draft is accepted, which has the probability min(1, P / Q)
/// and is computed without division. Here p and q are the token's weights in rows that sum to zp
/// and zq. The products p zq and q zp have up to 100 bits, and their product with the word has up
/// to 164 bits.
inline bool accepts(std::uint64_t p, std::uint64_t zp, std::uint64_t q, std::uint64_t zq,
                    std::uint64_t word) {
  const uint128_t a = static_cast<uint128_t>(p) * zq;
  const uint128_t b = static_cast<uint128_t>(q) * zp;
  return p > 0 && (a >= b || multiply_high(word, b) < a);
}
inline bool accepts(const DistributionWeights& target, const DistributionWeights& draft,
                    std::int32_t token, std::uint64_t word) {
  const auto x = static_cast<std::size_t>(token);
  return accepts(target.weight[x], target.total, draft.weight[x], draft.total, word);
}

/// Draws a token from the distribution, by prefix sums in the order of token ids.
inline std::int32_t draw(const DistributionWeights& distribution, std::uint64_t word) {
  const std::uint64_t t = multiply_high(word, distribution.total);
  std::uint64_t sum = 0;
  for (std::size_t j = 0;; ++j) {
    sum += distribution.weight[j];
    if (sum > t) return static_cast<std::int32_t>(j);
  }
}

/// Draws the token that replaces a rejected one, with the weights max(P_j Zq - Q_j Zp, 0), by
/// prefix sums in the order of token ids; the sums have up to 120 bits. The sums of P_j Zq and of
/// Q_j Zp over all tokens are both Zp Zq, so if one token has P_x Zq < Q_x Zp, another token has a
/// positive residual. All residuals are 0 only if the two distributions are equal. In this case, a
/// rejected token would have the weight 0 in both distributions, which no drawn token has; the
/// function then draws from the target.
inline std::int32_t recover(const DistributionWeights& target, const DistributionWeights& draft,
                            std::size_t vocab, std::uint64_t word) {
  const auto residual = [&](std::size_t j) {
    const uint128_t p = static_cast<uint128_t>(target.weight[j]) * draft.total;
    const uint128_t q = static_cast<uint128_t>(draft.weight[j]) * target.total;
    return p > q ? p - q : uint128_t{0};
  };
  uint128_t total = 0;
  for (std::size_t j = 0; j < vocab; ++j) total += residual(j);
  if (total == 0) return draw(target, word);
  const uint128_t t = multiply_high(word, total);
  uint128_t sum = 0;
  for (std::size_t j = 0;; ++j) {
    sum += residual(j);
    if (sum > t) return static_cast<std::int32_t>(j);
  }
}

}  // namespace fairdraw::cpu
