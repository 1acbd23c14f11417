// Which of a warp's tiles a guess looks at: a few of them, spread evenly, or all where it has no
// more.
#pragma once

#include "common/host_device.h"

namespace fairdraw::cuda {

struct WarpSample {
  /// Half as many make the bracket of a guess too wide for its list, and a second pass: peaked rows
  /// at 64 and 256 rows, on an H100, take 97 us for 74 and 209 for 149. Where they do not, they
  /// save 3 and 8.
  static constexpr int kMost = 8;

  int count;  ///< tiles of the warp

  FAIRDRAW_HOST_DEVICE int size() const { return count < kMost ? count : kMost; }
  /// The number of its i-th tile among the warp's: of equal parts, the tile at the middle.
  FAIRDRAW_HOST_DEVICE int number(int i) const {
    return count <= kMost ? i : (2 * i + 1) * count / (2 * kMost);
  }
  /// Whether the warp's tile with this number is in it.
  FAIRDRAW_HOST_DEVICE bool holds(int tile) const {
    // The only i for which number(i) may be `tile`: (2 i + 1) count / (2 kMost) is in
    // [tile, tile + 1), so i is the least integer from tile kMost / count - 1/2 on.
    const int i = (2 * kMost * tile + count - 1) / (2 * count);
    return count <= kMost || number(i) == tile;
  }
};

}  // namespace fairdraw::cuda
