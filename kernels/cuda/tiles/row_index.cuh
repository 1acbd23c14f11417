// A row's index while the row is in flight: in shared memory of the row's first block.
//
// Contract. 1 to 16 blocks share a row (device/row_cluster.cuh): a thread-block cluster. Each warp
// of them sends the entries of its tiles to the first block's shared memory; when all have arrived
// there, that block does the row's end. Where all blocks need the row's largest key, each warp
// sends its own to all of them.
//
// Why a cluster, and no counter by which the last block knows that it is the last: there is nothing
// to initialise, so nothing can be left over. A counter in the workspace has to be 0 before a
// launch, whatever ran before; that takes a memset of 1.5 us, or a promise of the caller. Nor does
// an index in shared memory cost the round trip through L2, fence and atomic.
//
// Determinism: each entry has its place.
#pragma once

#include <cstdint>

#include "cuda/device/row_cluster.cuh"
#include "cuda/device/warp_sums.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

/// Most blocks of a row. More than 8 make a cluster of a size that not every device schedules.
inline constexpr int kMaxBlocksOfRow = 16;
inline constexpr int kMaxWarpsOfBlock = 16;

/// Bytes of an index in shared memory.
constexpr int index_bytes(std::int64_t tiles) {
  return static_cast<int>(tiles) * static_cast<int>(sizeof(std::uint64_t) + sizeof(std::int32_t));
}

/// An index as it is read: in shared memory, or in the workspace.
struct RowIndex {
  const std::int32_t* keys;
  const std::uint64_t* sums;
  int tiles;
};

/// The largest key of each warp of a row, in every block.
struct WarpKeys {
  std::int32_t of_warps[kMaxBlocksOfRow * kMaxWarpsOfBlock];
};

/// This thread's part of a row: which tiles its warp has, and where what it finds goes.
class RowBlocks {
 public:
  __device__ RowBlocks(int blocks, int tiles, unsigned char* dynamic)
      : cluster_{blocks, static_cast<int>(blockIdx.x) % blocks},
        tiles_(tiles),
        sums_(reinterpret_cast<std::uint64_t*>(dynamic)),
        keys_(reinterpret_cast<std::int32_t*>(sums_ + tiles)) {}

  __device__ const RowCluster& cluster() const { return cluster_; }
  __device__ bool is_first() const { return cluster_.rank == 0; }
  __device__ int warp() const {
    return cluster_.rank * warps_of_block() + static_cast<int>(threadIdx.x) / kWarp;
  }
  __device__ int warps() const { return cluster_.blocks * warps_of_block(); }

  /// By the warp that has the tile. keeps_key: key_of_mine() will be asked for it.
  __device__ __forceinline__ void send(int tile, const TileEntry& entry, bool keeps_key) const {
    if (lane() != 0) return;
    *cluster_.at(keys_ + tile, 0) = entry.key;
    *cluster_.at(sums_ + tile, 0) = entry.sum;
    if (keeps_key && !is_first()) keys_[tile] = entry.key;
  }
  __device__ __forceinline__ void send_sum(int tile, std::uint64_t sum) const {
    if (lane() == 0) *cluster_.at(sums_ + tile, 0) = sum;
  }
  /// The key of a tile that this warp has sent.
  __device__ std::int32_t key_of_mine(int tile) const { return keys_[tile]; }

  /// Tells all blocks of the row this warp's largest key.
  __device__ void send_largest(std::int32_t key, WarpKeys& keys) const {
    if (lane() < cluster_.blocks) *cluster_.at(keys.of_warps + warp(), lane()) = key;
  }
  /// The largest of all, when the blocks have met.
  __device__ std::int32_t largest(const WarpKeys& keys) const {
    std::int32_t key = kNoTokenKey;
    for (int i = lane(); i < warps(); i += kWarp) key = ::max(key, keys.of_warps[i]);
    return __reduce_max_sync(kAllLanes, key);
  }

  /// In the first block, when the blocks have met.
  __device__ RowIndex index() const { return {keys_, sums_, tiles_}; }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ static int warps_of_block() { return static_cast<int>(blockDim.x) / kWarp; }

  RowCluster cluster_;
  int tiles_;
  std::uint64_t* sums_;
  std::int32_t* keys_;
};

}  // namespace fairdraw::cuda
