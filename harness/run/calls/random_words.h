// Computes the random words that the specification gives to each draw, by Philox4x32-10 from
// Random123. This code belongs to the harness, and shares nothing with the kernels' code for random
// words.
#pragma once

#include <cstdint>
#include <string_view>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Returns the random word of one draw. The key is the seed, the counter is {offset low, offset
/// high, purpose, index}, and the word consists of the first two outputs, the low one first. The
/// argument `sibling` is stored in the bits above the purpose; it is the number of the sibling
/// whose acceptance is tested in a tree, or the attempt of a draw by proposals.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                          std::uint32_t index, std::uint32_t sibling = 0);

/// Returns a seed made from a text (FNV-1a of its bytes, then the final mixing of SplitMix64).
std::uint64_t seed_from_text(std::string_view text);

/// Returns the seed of a case, which depends only on the run's seed and the case's id, so that
/// --shard, --jobs and the other cases of a run do not change it.
std::uint64_t case_seed(std::uint64_t run_seed, std::string_view case_id);

/// Returns element `index` of the pseudorandom sequence `seed` (SplitMix64), for test inputs.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t index);

}  // namespace fairdraw::harness
