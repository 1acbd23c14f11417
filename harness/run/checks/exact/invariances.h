// Changes a row so that its distribution stays the same. The effect on weights by tiles is none
// within stated limits, and otherwise at most the real-number oracle's error band.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Returns whether adding `shift` to all logits of a row, without rounding, changes no weight. The
/// shift must be an even number of octaves, because an odd one rounds logits halfway between two
/// octaves the other way.
bool shifts_exactly(const reference::RowParameters& parameters, float shift);

/// Returns `probability` times 2^octaves; returns no value if weights may not change in proportion,
/// because the product is not exact or one of the two values is subnormal. The octaves of
/// subnormals end at -126, so a tile that only has subnormals does not scale along with other
/// tiles.
std::optional<float> scaled_exactly(float probability, int octaves);

/// Returns whether no weight of the row depends on its token's tile: the smallest and the largest
/// value are at most 31 octaves apart, so that no tile cuts off a bit.
bool is_free_of_tiles(const Request& request, std::int64_t row);

/// Adds columns to the vocabulary of a request, without changing its arrays. A top_k that keeps the
/// whole vocabulary grows too, because otherwise top_k would become active, and with top_p other
/// random words would decide.
void widen_vocab(Request& request, std::int64_t columns);

/// Returns how the answer to a changed request leaves the error band, or an empty string: by a
/// status that differs from that before the change, a token of a row that must fail, or a wrong
/// token, mask bit or support size. Rows that the profile does not define are skipped.
std::string outside_of_band(const CheckInput& input, const Request& changed,
                            const Response& response, const Response& before);

}  // namespace fairdraw::harness
