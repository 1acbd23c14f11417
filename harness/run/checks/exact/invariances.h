// What a change of a row that is none of its distribution changes of weights by tiles: nothing
// within stated limits, and outside of them no more than the real-number oracle's band.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Whether adding `shift` to all logits of a row, without rounding, changes no weight: it is an
/// even number of octaves. An odd one rounds ties of octaves the other way.
bool shifts_exactly(const reference::RowParameters& parameters, float shift);

/// `probability` times 2^octaves, or nothing where weights may not follow it: it is not exact, or
/// one of the two is subnormal. Octaves of subnormals end at -126, so that a tile that has nothing
/// else does not move along with the others.
std::optional<float> scaled_exactly(float probability, int octaves);

/// Whether no weight of the row depends on where its token lies: 31 octaves at most from the
/// smallest to the largest value, so that no tile cuts a bit.
bool is_free_of_tiles(const Request& request, std::int64_t row);

/// Appends columns to the vocabulary of a request, not to its arrays. A top_k that keeps the whole
/// vocabulary grows along: it would be active otherwise, and with top_p other words decide then.
void widen_vocab(Request& request, std::int64_t columns);

/// Empty, or how the answer to a changed request leaves the band: by a status that it did not have
/// before the change, a token of a row that must fail, or a token, a bit of a mask or the size of a
/// support. Rows whose answer the profile leaves open are passed over.
std::string outside_of_band(const CheckInput& input, const Request& changed,
                            const Response& response, const Response& before);

}  // namespace fairdraw::harness
