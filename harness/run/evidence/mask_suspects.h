// Explains a wrong mask as the right one of another parameter or definition. The checks mask.cpp
// and tokens.cpp of checks/exact use this code.
#pragma once

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Explains a call whose masks or support sizes contradict the distribution. Tries mistakes one by
/// one: a temperature that is 1 % off, a top_k of one more, every other value of every choice of
/// the profile, and others. Names at most three mistakes, which explain the most wrong rows,
/// explain at least half of them, and break no right row. A mistake may break right rows if it
/// explains 19 in 20 wrong rows and a condition distinguishes these from the right rows. If no
/// mistake explains the rows, names the parameter that all wrong rows have in common. Returns
/// false, and names nothing, if no row is wrong. Calls no sampler. The function passes over the
/// rows of the call once, and examines at most some 2^20 logits again.
bool note_mask_mistakes(const CheckInput& input, const Request& request, const Response& response,
                        CheckOutcome& outcome);

/// Returns whether the bitmask of the request bans a token of a row.
bool is_banned(const Request& request, std::int64_t row, std::int64_t token);

/// Records the fact if the bitmask bans a wrong token. The argument `became` says whether the
/// banned token was "drawn" or "kept".
void note_ban(const Request& request, std::int64_t row, std::int64_t token, const char* became,
              CheckOutcome& outcome);

}  // namespace fairdraw::harness
