#include "reference/threefry.h"

#include <array>
#include <bit>

namespace fairdraw::reference {

std::uint64_t threefry2x32(std::uint64_t key, std::uint64_t counter) {
  constexpr std::array<int, 8> kRotations = {13, 15, 26, 6, 17, 29, 16, 24};
  constexpr std::uint32_t kSkeinParity = 0x1BD11BDA;  // the paper's "the same as Skein's"
  const auto k0 = static_cast<std::uint32_t>(key);
  const auto k1 = static_cast<std::uint32_t>(key >> 32);
  const std::array<std::uint32_t, 3> schedule = {k0, k1, k0 ^ k1 ^ kSkeinParity};
  std::uint32_t x0 = static_cast<std::uint32_t>(counter) + schedule[0];
  std::uint32_t x1 = static_cast<std::uint32_t>(counter >> 32) + schedule[1];
  for (std::uint32_t round = 0; round < 20; ++round) {
    x0 += x1;
    x1 = std::rotl(x1, kRotations[round % 8]) ^ x0;
    if (round % 4 != 3) continue;
    const std::uint32_t injection = round / 4 + 1;
    x0 += schedule[injection % 3];
    x1 += schedule[(injection + 1) % 3] + injection;
  }
  return x0 | static_cast<std::uint64_t>(x1) << 32;
}

std::uint64_t child_seed_model(std::uint64_t seed, std::uint64_t child) {
  if (child == 0) return seed;
  const std::uint64_t block = threefry2x32(seed, child);
  return block == seed ? threefry2x32(seed, 0) : block;
}

}  // namespace fairdraw::reference
