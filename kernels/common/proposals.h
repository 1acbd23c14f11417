// Draws of rows with top_p and without an active top_k by proposals. A token is drawn first, and
// then the filters decide whether this token, the proposal, is accepted.
//
// Definition. W is the weight of a token in the row (tile_weights.h). F is the set of tokens that
// min_p keeps; without min_p, F is the set of all allowed tokens. T_F is the set of tiles whose
// largest value min_p keeps. Z' is the sum of all weights in the tiles of T_F, and Z_F is the sum
// of W over F.
//   1. Attempt i, 0 <= i < kAttempts, has a word w_i of its own (DrawWords).
//   2. It proposes t_i, the token at floor(w_i Z' / 2^64) of T_F, as a draw without filters does.
//   3. t_i is accepted if it is in F and A(t_i) < max(1, ceil(top_p Z_F)). A is the sum of W over
//      the tokens of F with a strictly larger value. If top_p comes before min_p (joint order), A,
//      the target and Z_F are taken over all allowed tokens, and t_i must pass both tests.
//   4. The row's token is the first accepted t_i. If none is accepted, it is the survivor at
//      floor(w_64 Z_K / 2^64), the draw by a threshold, where Z_K is the sum of the survivors.
//
// Proof. The random words of the attempts are independent, so the tokens t_i are independent, and
// P(t_i = j) is W_j / Z' up to 2^-64. The acceptance of j depends only on the row, the parameters
// and the value of j. Every survivor is in a tile of T_F, so P(j) = W_j / Z_K holds for an accepted
// t_i, as in step 4. The number of the first accepted attempt is independent of the attempt's
// token, so the token of the row has this distribution, too. The bias is at most kAttempts vocab
// 2^-65 in total variation, which is 2^-39 for 2^20 tokens.
//
// The mass A decreases as values grow, so any value above that of an accepted token is accepted,
// and any value below that of a rejected token is rejected. So bounds of A from an index, or a
// threshold that is known, decide only earlier what the comparison of integers would decide, and
// the path of the code never changes a token.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "common/philox.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Attempts per draw. With top_p = p, the probability that no attempt is accepted is at most (1 -
/// p)^64.
inline constexpr std::uint32_t kAttempts = 64;

/// Returns whether a row that is not greedy draws its tokens by proposals. `top_k_is_active` is the
/// result of top_k_is_on() for the row.
FAIRDRAW_HOST_DEVICE constexpr bool proposes(bool top_k_is_active, float top_p) {
  return !top_k_is_active && top_p < 1.0F;
}

/// The random words that one draw may use. Attempt 0 uses the same random word as a row without
/// filters. The number of the attempt takes the bits of the counter that have the sibling in a
/// drafted tree.
struct DrawWords {
  std::uint64_t seed, offset;
  Purpose purpose;
  std::uint32_t index;  ///< index of the sample or, if all outputs share a seed, index of the token
                        ///< in the call

  FAIRDRAW_HOST_DEVICE std::uint64_t of_attempt(std::uint32_t attempt) const {
    return random_word(seed, offset, purpose, index, attempt);
  }
  /// Returns the random word of step 4, which draws from the survivors.
  FAIRDRAW_HOST_DEVICE std::uint64_t of_survivors() const { return of_attempt(kAttempts); }
};

}  // namespace fairdraw
