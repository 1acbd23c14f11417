// Seeds for the outputs of a prompt, from Threefry2x32-20 as in the library Random123.
//
// The key of Threefry is the seed of the parent, and the counter is the number of the child. The
// block that results is the seed of the child. The key, the counter and the block all have the low
// word first. Under each key, the map from counters to blocks is a permutation of 64-bit numbers,
// so siblings have different seeds. Child 0 gets the seed of the parent. If the block of another
// child equals the parent's seed, this child takes the block of counter 0 instead, which no other
// child has.
#pragma once

#include <Random123/threefry.h>

#include <cstdint>

#include "common/host_device.h"

namespace fairdraw {

FAIRDRAW_HOST_DEVICE inline std::uint64_t threefry_block(std::uint64_t key64,
                                                         std::uint64_t counter64) {
  r123::Threefry2x32::ctr_type counter{};
  counter[0] = static_cast<std::uint32_t>(counter64);
  counter[1] = static_cast<std::uint32_t>(counter64 >> 32);
  r123::Threefry2x32::key_type key{};
  key[0] = static_cast<std::uint32_t>(key64);
  key[1] = static_cast<std::uint32_t>(key64 >> 32);
  const auto out = threefry2x32(counter, key);
  return out[0] | (static_cast<std::uint64_t>(out[1]) << 32);
}

FAIRDRAW_HOST_DEVICE inline std::uint64_t threefry_child(std::uint64_t seed, std::uint64_t child) {
  if (child == 0) return seed;
  const std::uint64_t block = threefry_block(seed, child);
  return block == seed ? threefry_block(seed, 0) : block;
}

}  // namespace fairdraw
