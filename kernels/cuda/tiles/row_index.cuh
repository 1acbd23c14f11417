// Index of a row while the row is being processed, in the shared memory of the row's first block.
//
// Contract. From 1 to 16 blocks share a row as a cluster of thread blocks (device/row_cluster.cuh).
// Each warp of these blocks sends the entries of its tiles to the shared memory of the first block,
// and raises the largest key there to its own largest key. After all warps have arrived at a
// barrier, the first block finishes the row. If all blocks need the row's largest key, each warp
// raises it in all blocks.
//
// The alternative to a cluster is a counter, by which the last block learns that it is the last. A
// cluster needs no initialisation, so nothing can be left over from a row that failed, from a
// launch that was aborted, or from another writer of the workspace. A counter, in contrast, would
// have to be 0 before each launch. The following times are microseconds on an H200, B = 1, V =
// 128256, for one pass and a draw.
//   9.9   a counter that happens to be 0       11.0  zeroed by a kernel that starts this one early
//   10.6  a memset node before the kernel      11.0  zeroed by a kernel before this one
// An index in shared memory also saves a round trip through L2, a fence and an atomic.
//
// Determinism: each entry has a fixed place in the index.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/device/device_assert.h"
#include "cuda/device/row_cluster.cuh"
#include "cuda/device/tile_spread.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

/// Returns the number of bytes that an index takes in shared memory.
constexpr int index_bytes(std::int64_t tiles) {
  return static_cast<int>(tiles) * static_cast<int>(sizeof(std::uint64_t) + sizeof(std::int32_t));
}

/// View of a row's index, in shared memory or in the workspace.
struct RowIndex {
  const std::int32_t* keys;
  const std::uint64_t* sums;
  int tiles;
};

/// Part of a row that belongs to one block: the tiles of the block's warps, and the memory to which
/// the warps send the tiles' entries.
class RowBlocks {
 public:
  __device__ RowBlocks(int blocks_log2, int tiles, unsigned char* dynamic)
      : cluster_{1 << blocks_log2,
                 static_cast<int>(blockIdx.x & ((1U << static_cast<unsigned>(blocks_log2)) - 1))},
        tiles_(tiles),
        sums_(reinterpret_cast<std::uint64_t*>(dynamic)),
        keys_(reinterpret_cast<std::int32_t*>(sums_ + tiles)),
        sums_of_first_(cluster_.at(sums_, 0)),
        keys_of_first_(cluster_.at(keys_, 0)) {}

  __device__ const RowCluster& cluster() const { return cluster_; }
  __device__ bool is_first() const { return cluster_.rank == 0; }
  /// Returns the number of this warp within the row. All lanes of a warp must call this function
  /// together.
  __device__ int warp() const {
    // The shuffle shows the compiler that all lanes have the same value.
    const int of_block = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarp, 0);
    return cluster_.rank * warps_of_block() + of_block;
  }
  __device__ int warps() const { return cluster_.blocks * warps_of_block(); }
  /// Returns the tiles that this warp visits.
  __device__ TileSteps steps() const { return {warp(), tiles_, warps()}; }

  /// Sends the entry of a tile to the first block; all lanes of the warp must have the entry. The
  /// key is also stored in this block, where the warp itself can read the key.
  __device__ __forceinline__ void send(int tile, const TileEntry& entry) const {
    FAIRDRAW_DEVICE_ASSERT(tile >= 0 && tile < tiles_);
    if (lane() != 0) return;
    keys_[tile] = entry.key;
    keys_of_first_[tile] = entry.key;
    sums_of_first_[tile] = entry.sum;
  }
  /// Sends only the sum of a tile to the first block. Precondition: the key of the tile has already
  /// been sent.
  __device__ __forceinline__ void send_sum(int tile, std::uint64_t sum) const {
    if (lane() == 0) sums_of_first_[tile] = sum;
  }
  /// Sends 0 as the sum of a tile. Any lane may call this function.
  __device__ __forceinline__ void send_no_sum(int tile) const { sums_of_first_[tile] = 0; }
  __device__ std::int32_t kept_key(int tile) const { return keys_[tile]; }

  /// Clears this block's word for the row's largest key, before the blocks announce themselves. A
  /// thread of the last warp clears the word, because the fence takes 600 cycles, and the last warp
  /// has no more tiles than the others.
  __device__ void clear_largest(std::int32_t& largest) const {
    if (threadIdx.x != blockDim.x - kWarp) return;
    largest = INT_MIN;
    cluster_.release();
  }
  /// Raises the largest key in the first block, or in all blocks of the row, to the largest key of
  /// this warp's tiles. `largest` is the word of this block, at the same place in all blocks.
  __device__ void raise_largest(std::int32_t key, bool in_all, std::int32_t& largest) const {
    if (lane() < (in_all ? cluster_.blocks : 1)) atomicMax(cluster_.at(&largest, lane()), key);
  }

  /// Returns the index of the row, if this is the first block. Precondition: a barrier of the row's
  /// blocks has followed the sending of the entries.
  __device__ RowIndex index() const { return {keys_, sums_, tiles_}; }
  __device__ std::uint64_t* sums() const { return sums_; }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ static int warps_of_block() { return static_cast<int>(blockDim.x) / kWarp; }

  RowCluster cluster_;
  int tiles_;
  std::uint64_t* sums_;
  std::int32_t* keys_;
  std::uint64_t* sums_of_first_;  ///< address of the first block's sums_
  std::int32_t* keys_of_first_;
};

}  // namespace fairdraw::cuda
