// Proposals: how a row with top_p and without an active top_k draws. A token is drawn first, and
// the filters are asked about it afterwards.
//
// Definition. W is a token's weight in the row (tile_weights.h). F is what min_p keeps, all allowed
// tokens without it; T_F is the tiles whose largest value min_p keeps; Z' is the sum of the whole
// tiles of T_F; Z_F is the sum of W over F.
//   1. Attempt i, 0 <= i < kAttempts, has a word w_i of its own (DrawWords).
//   2. It proposes t_i, the token at floor(w_i Z' / 2^64) of T_F: the draw without filters.
//   3. t_i is accepted if F has it and A(t_i) < max(1, ceil(top_p Z_F)). A is the sum of W over F
//      with a strictly larger value. An engine that applies top_p before min_p takes A, the target
//      and Z_F over all allowed tokens, and asks both questions.
//   4. The row's token is the first accepted t_i. Where none is accepted, it is the survivor at
//      floor(w_64 Z_K / 2^64), Z_K the survivors' sum: the draw by a threshold.
//
// Proof. Words are independent, so the t_i are, and P(t_i = j) is W_j / Z' within 2^-64. Whether j
// is accepted depends on the row, the parameters and j's value alone. Every survivor lies in a tile
// of T_F, so an accepted t_i has P(j) = W_j / Z_K, as step 4 has. Which attempt is the first
// accepted one does not depend on which token it has, so the row's token has it, too. The bias is
// at most kAttempts vocab 2^-65 in total variation: 2^-39 for 2^20 tokens.
//
// A falls as values grow: whatever is larger than an accepted token is accepted, whatever is
// smaller than a rejected one is rejected. So bounds of A from an index, or a threshold that is
// known, only say sooner what the comparison of integers says: no path shows in a token.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "common/philox.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Attempts of a draw. With top_p p none of them is accepted with probability (1 - p)^64 at most.
inline constexpr std::uint32_t kAttempts = 64;

/// Returns whether a row that is not greedy draws by proposals. top_k_is_active: top_k_is_on() of
/// its row.
FAIRDRAW_HOST_DEVICE constexpr bool proposes(bool top_k_is_active, float top_p) {
  return !top_k_is_active && top_p < 1.0F;
}

/// The random words of one draw. Attempt 0 has the word of a row without filters; the attempt lies
/// in the counter where a drafted tree has a sibling.
struct DrawWords {
  std::uint64_t seed, offset;
  Purpose purpose;
  std::uint32_t index;  ///< of the sample; with a scalar seed of the token in the call

  FAIRDRAW_HOST_DEVICE std::uint64_t of_attempt(std::uint32_t attempt) const {
    return random_word(seed, offset, purpose, index, attempt);
  }
  /// Step 4's.
  FAIRDRAW_HOST_DEVICE std::uint64_t of_survivors() const { return of_attempt(kAttempts); }
};

}  // namespace fairdraw
