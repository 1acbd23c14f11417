// Random words: Philox4x32-10 (Salmon et al. 2011), by Random123.
//
// Key: the request's 64-bit seed. Counter: {offset low, offset high, purpose + 256 sibling, index}.
// Each counter yields one 64-bit word, out0 | out1 << 32, so no two purposes, siblings, offsets or
// indices share bits. Sibling is 0 with two exceptions: purpose accept in a drafted tree
// (fairdraw/speculative.h), and draws by proposals, where sibling is the number of the attempt
// (proposals.h).
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
