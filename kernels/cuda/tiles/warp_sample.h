// Which of a warp's tiles a guess looks at: about a quarter of them, spread evenly, at least eight.
// Their number is one that rings of four stages read in whole rounds.
//
// Fewer make the bracket of a guess too wide for its list, and a second pass. With half as many
// peaked rows take 97 us for 74 (64 rows) and 209 for 149 (256), on an H100, where V is 128256;
// where the list is long enough, they save 3 and 8. With eight of any number 96 rows of V = 201088,
// a block each, take 323 us for 132.
#pragma once

#include "common/host_device.h"

namespace fairdraw::cuda {

struct WarpSample {
  static constexpr int kLeast = 8;
  static constexpr int kOneOf = 4;
  static constexpr int kAtOnce = 4;

  int count;  ///< tiles of the warp

  FAIRDRAW_HOST_DEVICE int size() const { return count < kLeast ? count : most(); }
  /// The number of its i-th tile among the warp's: of equal parts, the tile at the middle.
  FAIRDRAW_HOST_DEVICE int number(int i) const {
    return count <= kLeast ? i : (2 * i + 1) * count / (2 * most());
  }
  /// Whether the warp's tile with this number is in it.
  FAIRDRAW_HOST_DEVICE bool holds(int tile) const {
    // The only i for which number(i) may be `tile`: (2 i + 1) count / (2 most) is in
    // [tile, tile + 1), so i is the least integer from tile most / count - 1/2 on.
    const int i = (2 * most() * tile + count - 1) / (2 * count);
    return count <= kLeast || number(i) == tile;
  }

 private:
  FAIRDRAW_HOST_DEVICE int most() const {
    const int some = count / (kOneOf * kAtOnce) * kAtOnce;
    return some > kLeast ? some : kLeast;
  }
};

}  // namespace fairdraw::cuda
