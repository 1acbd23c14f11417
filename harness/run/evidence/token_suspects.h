// What a wrong token is the right one of: another seed, offset, number or row. For
// checks/exact/tokens.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// A call, of rows from `first` of the case on, whose token for `sample` of `output` is not the
/// model's (`models[row % size]` is row `row`). Notes what was observed and expected, the tokens
/// around the wrong one, how small a call shows it, and where all tokens of the call follow from
/// one mistake, that one: the seed of another output, an offset or a number that is lost, another
/// row. Calls the sampler once more.
void note_wrong_draw(const CheckInput& input, const Request& request, const Response& response,
                     const std::vector<reference::IntegerRow>& models, std::int64_t first,
                     std::int64_t output, std::int32_t sample, CheckOutcome& outcome);

/// Where a number that was drawn is no token of the vocabulary, and not -1: that.
void note_no_token(std::int32_t token, std::int64_t vocab, CheckOutcome& outcome);

/// Of tokens around one that was drawn and is wrong: what the sampler's own mask says of them,
/// where it reports one, so that a wrong mask and a draw that leaves a right one look different.
/// Calls the sampler once more.
void note_own_mask(const CheckInput& input, const Request& request, std::int64_t row,
                   Boundary& boundary);

}  // namespace fairdraw::harness
