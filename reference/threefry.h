// The cipher Threefry2x32-20 (Salmon, Moraes, Dror, Shaw 2011), written from the paper; it computes
// the seeds of further outputs of a prompt.
#pragma once

#include <cstdint>

namespace fairdraw::reference {

/// Encrypts a counter with a key; both consist of two 32-bit words, the low word first.
std::uint64_t threefry2x32(std::uint64_t key, std::uint64_t counter);

/// Returns the seed of output number `child` of a prompt, by ChildSeedRule::threefry.
std::uint64_t child_seed_model(std::uint64_t seed, std::uint64_t child);

}  // namespace fairdraw::reference
