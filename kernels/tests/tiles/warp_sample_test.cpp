// What a guess looks at (cuda/tiles/warp_sample.h): the same tiles by number and by membership.
#include "cuda/tiles/warp_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace fairdraw::cuda {
namespace {

/// A warp has 2^20 / 256 tiles at most: where a row has one warp.
constexpr int kMostTiles = 4096;

TEST(WarpSample, HoldsTheTilesThatItNumbersAndNoOthers) {
  for (int count = 1; count <= kMostTiles; ++count) {
    const WarpSample sample{count};
    std::set<int> numbered;
    for (int i = 0; i < sample.size(); ++i) numbered.insert(sample.number(i));
    ASSERT_EQ(numbered.size(), sample.size()) << count;
    for (int tile = 0; tile < count; ++tile) {
      ASSERT_EQ(sample.holds(tile), numbered.contains(tile)) << tile << " of " << count;
    }
  }
}

TEST(WarpSample, IsAQuarterOfTheTilesInFoursOrEight) {
  for (int count = 1; count <= kMostTiles; ++count) {
    EXPECT_EQ(WarpSample{count}.size(), std::min(count, std::max(8, count / 16 * 4)));
  }
}

TEST(WarpSample, IsSpreadEvenly) {
  for (int count = 1; count <= kMostTiles; ++count) {
    const WarpSample sample{count};
    const int parts = sample.size();
    // Part i of equal ones is [i, i + 1) count / parts; its middle is in tile number(i).
    for (int i = 0; i < parts; ++i) {
      ASSERT_LE(sample.number(i) * 2 * parts, (2 * i + 1) * count) << count;
      ASSERT_GT((sample.number(i) + 1) * 2 * parts, (2 * i + 1) * count) << count;
    }
  }
}

}  // namespace
}  // namespace fairdraw::cuda
