// What verification of a chain draws, by one block: of a residual, or of a target's row; and the
// test of a drafted token. In integers (fairdraw/sampling.h, chain_speculative_sampling).
//
// With target weights P (sum Zp) and draft weights Q (sum Zq), x the drafted token:
//   accept    if P_x > 0 and (P_x Zq >= Q_x Zp or floor(r Q_x Zp / 2^64) < P_x Zq),
//   residual  R_j = max(P_j Zq - Q_j Zp, 0), drawn by its prefix sums in token-id order,
// exactly: products have up to 100 bits, sums of residuals 120, products with a random word 192.
// Where all residuals are 0 the two laws are equal, and the token is drawn from the target.
#pragma once

#include <cstdint>

#include "block_sums.cuh"
#include "prefix_draw.cuh"
#include "wide_integers.h"

namespace fairdraw::cuda {

/// Weights of a row: a function of the token, and their sum.
template <class Weight>
struct Law {
  Weight weight;
  std::uint64_t total;
};
template <class Weight>
Law(Weight, std::uint64_t) -> Law<Weight>;

template <class Target, class Draft>
__device__ bool accepts_draft(const Law<Target>& target, const Law<Draft>& draft,
                              std::int32_t token, std::uint64_t word) {
  const std::uint64_t weight = target.weight(token);
  const uint128_t p = static_cast<uint128_t>(weight) * draft.total;
  const uint128_t q = static_cast<uint128_t>(draft.weight(token)) * target.total;
  return weight > 0 && (p >= q || multiply_high(word, q) < p);
}

/// Shared memory of a block that draws.
using ChainSums = PrefixSums<uint128_t>;

/// A token by prefix sums of `weight`, or -1 where all weights are 0. For the whole block; valid
/// in the first warp.
template <class Weight>
__device__ std::int32_t draw_by_block(ChainSums& sums, std::int64_t vocab, std::uint64_t word,
                                      const Weight& weight) {
  sum_ranges(sums, vocab, weight);
  const uint128_t total = sums.inclusive[kRanges - 1];
  std::int32_t token = -1;
  if (total != 0 && warp_of_thread() == 0) {
    token = draw_token(sums, vocab, multiply_high(word, total), weight);
  }
  __syncthreads();  // the sums may be used again
  return token;
}

/// A token of the target's row.
template <class Target>
__device__ std::int32_t draw_from_target(ChainSums& sums, std::int64_t vocab, std::uint64_t word,
                                         const Law<Target>& target) {
  return draw_by_block(sums, vocab, word,
                       [&](std::int64_t j) { return uint128_t{target.weight(j)}; });
}

/// The token in place of one that does not stand.
template <class Target, class Draft>
__device__ std::int32_t draw_residual(ChainSums& sums, std::int64_t vocab, std::uint64_t word,
                                      const Law<Target>& target, const Law<Draft>& draft) {
  const auto residual = [&](std::int64_t j) {
    const uint128_t p = static_cast<uint128_t>(target.weight(j)) * draft.total;
    const uint128_t q = static_cast<uint128_t>(draft.weight(j)) * target.total;
    return p > q ? p - q : uint128_t{0};
  };
  const std::int32_t token = draw_by_block(sums, vocab, word, residual);
  const bool equal_laws = sums.inclusive[kRanges - 1] == 0;
  __syncthreads();
  return equal_laws ? draw_from_target(sums, vocab, word, target) : token;
}

}  // namespace fairdraw::cuda
