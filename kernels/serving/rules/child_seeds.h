// Seeds of a prompt's outputs: Threefry2x32-20 by Random123.
//
// Key: the parent's seed; counter: the child's number, low word first; the block is the child's
// seed, low word first. Under each key, the map from counters to blocks is a permutation of 64
// bits, so siblings are distinct. Child 0 has the parent's seed. The one child whose block equals
// the parent's seed takes the block of counter 0 instead, which no other child has.
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
