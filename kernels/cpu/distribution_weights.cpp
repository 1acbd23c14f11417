#include "cpu/distribution_weights.h"

#include <algorithm>

namespace fairdraw::cpu {

std::uint64_t write_weights_of(const TilePasses& passes, const float* x, std::size_t n,
                               const WeightRule& rule, float max, float low, std::size_t tie_end,
                               std::uint64_t* weights) {
  // The weight m 2^(32 - d) of a value d octaves below the row's maximum has already been
  // truncated, and the shift below truncates it again.
  constexpr int kSpeculationBits = 16;
  constexpr auto kMax = static_cast<std::size_t>(kTileSize);
  std::uint64_t total = 0;
  for (std::size_t begin = 0; begin < n; begin += kMax) {
    const std::size_t length = std::min(kMax, n - begin);
    std::uint64_t tile[kMax + kTileSlack];
    passes.weigh(x + begin, length, rule, max, low, tile);
    for (std::size_t i = 0; i < length; ++i) {
      const bool cut = begin + i >= tie_end && x[begin + i] == low;
      weights[begin + i] = cut ? 0 : tile[i] >> (kTileBits - kSpeculationBits);
      total += weights[begin + i];
    }
  }
  return total;
}

}  // namespace fairdraw::cpu
