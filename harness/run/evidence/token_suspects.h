// Explains a wrong token as the right one of another seed, offset, number or row. The check
// checks/exact/tokens.cpp uses this code.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Records a wrong token of a call: the observed and the expected token, the tokens around it, and
/// the smallest call that shows it. If one mistake explains all tokens of the call, the function
/// names this mistake: the seed of another output, a lost offset or number, another row. The call
/// has rows of the case from number `first` on; its token for `sample` of `output` is not that of
/// the model (`models[row % size]` is the model of row `row`). The function makes another call of
/// the sampler.
void note_wrong_draw(const CheckInput& input, const Request& request, const Response& response,
                     const std::vector<reference::IntegerRow>& models, std::int64_t first,
                     std::int64_t output, std::int32_t sample, CheckOutcome& outcome);

/// Records that a drawn number is no token of the vocabulary, and not -1.
void note_no_token(std::int32_t token, std::int64_t vocab, CheckOutcome& outcome);

/// Adds the bits of the sampler's own mask, if it reports one, to the tokens around a wrong one, so
/// that a wrong mask and a draw outside of a right mask look different. The function makes another
/// call of the sampler.
void note_own_mask(const CheckInput& input, const Request& request, std::int64_t row,
                   Boundary& boundary);

}  // namespace fairdraw::harness
