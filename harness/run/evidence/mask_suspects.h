// What a wrong mask is the right one of: another parameter, or another definition. For
// mask.cpp and tokens.cpp of checks/exact.
#pragma once

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// A call whose masks or support sizes are not the distribution's. Tries mistakes one by one (a
/// temperature that is 1 % off, a top_k of one more, every other value of every choice of the
/// profile, ...), and names those whose distribution agrees with every row that was examined;
/// where none does, those that explain at least half of the wrong rows and break no right one. At
/// most three; where there is none, the parameter that all wrong rows have in common. Returns
/// false, and says nothing, where no row is wrong. Calls no sampler. Compared with one look at each
/// row of the call, at most some 2^20 logits are examined again.
bool note_mask_mistakes(const CheckInput& input, const Request& request, const Response& response,
                        CheckOutcome& outcome);

/// Whether the bitmask of the request bans a token of a row.
bool is_banned(const Request& request, std::int64_t row, std::int64_t token);

/// Where a token that should not be there is one that the bitmask bans: that.
void note_ban(const Request& request, std::int64_t row, std::int64_t token, const char* became,
              CheckOutcome& outcome);

}  // namespace fairdraw::harness
