// The random words that the specification gives to each draw, from Random123's Philox4x32-10. This
// code belongs to the harness, and shares nothing with the kernels' random words.
#pragma once

#include <cstdint>
#include <string_view>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Returns the word of one draw. Key: seed; counter: {offset low, offset high, purpose, index}; the
/// word is the first two outputs, low one first. `sibling` is in the bits above the purpose; it is
/// the sibling of an acceptance in a tree, or the attempt of a draw that proposes.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                          std::uint32_t index, std::uint32_t sibling = 0);

/// Returns the seed of a text (FNV-1a of its bytes, finished by SplitMix64).
std::uint64_t seed_from_text(std::string_view text);

/// Returns the seed of a case, a function of the run's seed and the case's id, so that neither
/// --shard nor --jobs nor the other cases of a run change it.
std::uint64_t case_seed(std::uint64_t run_seed, std::string_view case_id);

/// Returns element `index` of the pseudorandom sequence `seed` (SplitMix64), for test inputs.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t index);

}  // namespace fairdraw::harness
