// What a guess looks at (cuda/tiles/warp_sample.h): the same tiles by number and by membership.
#include "cuda/tiles/warp_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace fairdraw::cuda {
namespace {

/// A warp has 2^20 / 256 tiles at most: where a row has one warp.
constexpr int kMostTiles = 4096;

constexpr int kMost = WarpSample::kMost;

TEST(WarpSample, HoldsTheTilesThatItNumbersAndNoOthers) {
  for (int count = 1; count <= kMostTiles; ++count) {
    const WarpSample sample{count};
    std::set<int> numbered;
    for (int i = 0; i < sample.size(); ++i) numbered.insert(sample.number(i));
    ASSERT_EQ(numbered.size(), std::min(count, kMost)) << count;
    for (int tile = 0; tile < count; ++tile) {
      ASSERT_EQ(sample.holds(tile), numbered.contains(tile)) << tile << " of " << count;
    }
  }
}

TEST(WarpSample, IsSpreadEvenly) {
  for (int count = kMost; count <= kMostTiles; ++count) {
    const WarpSample sample{count};
    // Part i of kMost equal ones is [i, i + 1) count / kMost; its middle is in tile number(i).
    for (int i = 0; i < kMost; ++i) {
      const double middle = (i + 0.5) * count / kMost;  // exact: kMost is a power of two
      ASSERT_LE(sample.number(i), middle) << count;
      ASSERT_GT(sample.number(i) + 1, middle) << count;
    }
  }
}

}  // namespace
}  // namespace fairdraw::cuda
