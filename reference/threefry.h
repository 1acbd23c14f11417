// Threefry2x32-20 (Salmon, Moraes, Dror, Shaw 2011), written from the paper, for the seeds of a
// prompt's further outputs.
#pragma once

#include <cstdint>

namespace fairdraw::reference {

/// Returns the block of a counter under a key, each of two 32-bit words, the low word first.
std::uint64_t threefry2x32(std::uint64_t key, std::uint64_t counter);

/// Returns the seed of a prompt's output number `child`, by ChildSeedRule::threefry.
std::uint64_t child_seed_model(std::uint64_t seed, std::uint64_t child);

}  // namespace fairdraw::reference
