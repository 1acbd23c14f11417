// The random words that the specification gives to each draw, from Random123's Philox4x32-10:
// the harness's own code for them, which shares nothing with the kernels'.
#pragma once

#include <cstdint>
#include <string_view>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Word of one draw: key = seed, counter = {offset low, offset high, purpose, index}; the first
/// two outputs, low one first. `sibling`, of acceptance in a tree, is above the purpose; so is the
/// attempt of a draw that proposes.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                          std::uint32_t index, std::uint32_t sibling = 0);

/// The seed that belongs to a text (FNV-1a of its bytes, finished by SplitMix64).
std::uint64_t seed_from_text(std::string_view text);

/// Seed of a case: a function of the run's seed and the case's id, so that neither --shard nor
/// --jobs nor the other cases of a run change it.
std::uint64_t case_seed(std::uint64_t run_seed, std::string_view case_id);

/// Element `index` of the pseudorandom sequence `seed` (SplitMix64), for test inputs.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t index);

}  // namespace fairdraw::harness
