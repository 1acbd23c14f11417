// Proposals: the draw of a row with top_p and without an active top_k. A token is drawn first, and
// then the filters decide whether to accept it.
//
// Definition. W is a token's weight in the row (tile_weights.h). F is the set of tokens that min_p
// keeps, all allowed tokens without min_p. T_F is the set of tiles whose largest value min_p keeps.
// Z' is the sum of the whole tiles of T_F; Z_F is the sum of W over F.
//   1. Attempt i, 0 <= i < kAttempts, has a word w_i of its own (DrawWords).
//   2. It proposes t_i, the token at floor(w_i Z' / 2^64) of T_F, as a draw without filters does.
//   3. t_i is accepted if it is in F and A(t_i) < max(1, ceil(top_p Z_F)). A is the sum of W over
//      the tokens of F with a strictly larger value. If top_p comes before min_p (joint order), A,
//      the target and Z_F are taken over all allowed tokens, and t_i must pass both tests.
//   4. The row's token is the first accepted t_i. If none is accepted, it is the survivor at
//      floor(w_64 Z_K / 2^64), the draw by a threshold, where Z_K is the sum of the survivors.
//
// Proof. The random words of attempts are independent, so the tokens t_i are independent, and P(t_i
// = j) is W_j / Z' within 2^-64. Acceptance of j depends only on the row, the parameters and j's
// value. Every survivor is in a tile of T_F, so an accepted t_i has P(j) = W_j / Z_K, as in step 4.
// The number of the first accepted attempt is independent of its token, so the row's token has this
// distribution too. The bias is at most kAttempts vocab 2^-65 in total variation: 2^-39 for 2^20
// tokens.
//
// A decreases as values grow: any value above an accepted token's is accepted, any value below a
// rejected token's is rejected. So bounds of A from an index, or a known threshold, only decide
// earlier what the comparison of integers would decide: the code path never changes a token.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "common/philox.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Attempts per draw. With top_p = p, no attempt is accepted with probability at most (1 - p)^64.
inline constexpr std::uint32_t kAttempts = 64;

/// Returns whether a row that is not greedy draws by proposals. `top_k_is_active` is the row's
/// top_k_is_on().
FAIRDRAW_HOST_DEVICE constexpr bool proposes(bool top_k_is_active, float top_p) {
  return !top_k_is_active && top_p < 1.0F;
}

/// The random words of one draw. Attempt 0 has the same random word as a row without filters. The
/// attempt's number occupies the counter bits that contain the sibling in a drafted tree.
struct DrawWords {
  std::uint64_t seed, offset;
  Purpose purpose;
  std::uint32_t index;  ///< index of the sample or, with a scalar seed, of the token in the call

  FAIRDRAW_HOST_DEVICE std::uint64_t of_attempt(std::uint32_t attempt) const {
    return random_word(seed, offset, purpose, index, attempt);
  }
  /// Returns the random word of step 4, the draw from the survivors.
  FAIRDRAW_HOST_DEVICE std::uint64_t of_survivors() const { return of_attempt(kAttempts); }
};

}  // namespace fairdraw
