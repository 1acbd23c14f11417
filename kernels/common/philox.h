// Random words from Philox4x32-10 (Salmon et al. 2011), as in the library Random123.
//
// Key: the key of Philox is the 64-bit seed of the request. Counter: the counter has the four words
// {offset low, offset high, purpose + 256 sibling, index}. Each counter gives one word of 64 bits,
// out0 | out1 << 32, so that two different purposes, siblings, offsets or indices never share bits.
// The sibling is 0 with three exceptions: for the purpose accept in a drafted tree
// (fairdraw/speculative.h); for draws by proposals, where the sibling is the number of the
// attempt (proposals.h); and for the coin of a mark with two keys, sibling 65
// (fairdraw/watermark.h).
#pragma once

#include <Random123/philox.h>

#include <cstdint>

#include "common/host_device.h"
#include "fairdraw/types.h"

namespace fairdraw {

FAIRDRAW_HOST_DEVICE inline std::uint64_t random_word(std::uint64_t seed, std::uint64_t offset,
                                                      Purpose purpose, std::uint32_t index,
                                                      std::uint32_t sibling = 0) {
  r123::Philox4x32::ctr_type counter{};
  counter[0] = static_cast<std::uint32_t>(offset);
  counter[1] = static_cast<std::uint32_t>(offset >> 32);
  counter[2] = static_cast<std::uint32_t>(purpose) | (sibling << 8);
  counter[3] = index;
  r123::Philox4x32::key_type key{};
  key[0] = static_cast<std::uint32_t>(seed);
  key[1] = static_cast<std::uint32_t>(seed >> 32);
  const auto out = philox4x32(counter, key);
  return out[0] | (static_cast<std::uint64_t>(out[1]) << 32);
}

}  // namespace fairdraw
