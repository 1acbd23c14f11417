// The values of a row that reach a bound, listed in token-id order in shared memory.
//
// Only groups of 32 ids whose largest value may reach the bound are read again; the groups' keys are
// in shared memory (group_keys.cuh). Each warp owns a run of consecutive tiles and a section of the
// list: it notes its groups that may reach the bound, a tile a lane, then reads four groups at a
// time, several loads in flight, and appends what reaches it. So no warp waits for another, and the
// sections one after the other are in token-id order. A section that overflows is said, not written.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/tiles/block_masses.cuh"
#include "cuda/tiles/group_keys.cuh"
#include "cuda/tiles/row_quads.cuh"

namespace fairdraw::cuda {

/// In shared memory.
struct CandidateList {
  static constexpr int kOfWarp = 256;                   ///< room of a section
  static constexpr int kMax = kOfWarp * kEndWarps;
  static constexpr std::int32_t kOverflow = kMax + 1;  ///< a count

  std::int32_t key[kEndWarps][kOfWarp];  ///< order_key of the value
  std::int32_t id[kEndWarps][kOfWarp];
  std::int32_t count[kEndWarps];
  std::uint16_t group[kEndWarps][kOfWarp];  ///< that may reach the bound

  /// All threads' counts at a glance: how many entries, and where each section begins among them.
  struct Size {
    int total;
    bool overflow;
  };
  __device__ Size size() const {
    int total = 0;
#pragma unroll
    for (int warp = 0; warp < kEndWarps; ++warp) total += count[warp];
    return {total, total > kMax};
  }

  struct Entry {
    std::int32_t key;
    int id;
  };
  /// The entry with a number, below the total.
  __device__ Entry entry(int number) const {
    int warp = 0;
#pragma unroll
    for (int i = 0; i < kEndWarps - 1; ++i) {
      if (warp == i && number >= count[i]) {
        number -= count[i];
        ++warp;
      }
    }
    return {key[warp][number], id[warp][number]};
  }
};

/// The warp's groups that may reach the bound, in id order; their number, kOverflow where there is
/// no room.
__device__ __forceinline__ int list_groups(std::uint16_t* groups, const RowIndex& index,
                                           const GroupKeys& keys, std::int32_t bound) {
  const int share = (index.tiles + kEndWarps - 1) / kEndWarps;
  const int end = min((warp_of_thread() + 1) * share, index.tiles);
  int listed = 0;
#pragma unroll 1
  for (int first = warp_of_thread() * share; first < end; first += kWarp) {
    const int tile = first + lane_of_thread();
    unsigned reaching = 0;
    if (tile < end && index.keys[tile] >= bound) reaching = keys.reaching(tile, bound);
    const int inclusive = warp_inclusive_sum(__popc(reaching));
    int place = listed + inclusive - __popc(reaching);
    listed += __shfl_sync(kAllLanes, inclusive, kWarp - 1);
    if (listed > CandidateList::kOfWarp) return CandidateList::kOverflow;
#pragma unroll 1
    for (; reaching != 0; reaching &= reaching - 1) {
      groups[place++] = static_cast<std::uint16_t>(tile * kGroupsOfTile +
                                                   __ffs(static_cast<int>(reaching)) - 1);
    }
  }
  __syncwarp();
  return listed;
}

/// Reads the warp's groups and appends what reaches the bound; how many.
template <QuadAccess kAccess, DType kType>
__device__ __forceinline__ int append_candidates(CandidateList& list, const RowQuads<kType>& row,
                                                 int groups, std::int32_t bound) {
  constexpr int kAtOnce = 4;
  constexpr int kQuadsOfGroup = kGroup / kQuad;
  const int warp = warp_of_thread();
  const float from = from_order_key(bound);
  const int quads = groups * kQuadsOfGroup;
  const unsigned before_me = (1U << lane_of_thread()) - 1U;
  int listed = 0;
#pragma unroll 1
  for (int first = 0; first < quads && listed <= CandidateList::kOfWarp;
       first += kAtOnce * kWarp) {
    float x[kAtOnce][kQuad];
    int id[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int quad = first + i * kWarp + lane_of_thread();
      id[i] = row.vocab();
      if (quad < quads) {
        id[i] = list.group[warp][quad / kQuadsOfGroup] * kGroup + quad % kQuadsOfGroup * kQuad;
      }
      row.template load<kAccess>(id[i], x[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kWarp >= quads) break;
      int place = listed;
#pragma unroll
      for (int j = 0; j < kQuad; ++j) {
        const unsigned votes = __ballot_sync(kAllLanes, x[i][j] >= from);
        place += __popc(votes & before_me);
        listed += __popc(votes);
      }
#pragma unroll
      for (int j = 0; j < kQuad; ++j) {
        if (x[i][j] < from) continue;
        if (place < CandidateList::kOfWarp) {
          list.key[warp][place] = order_key(x[i][j]);
          list.id[warp][place] = id[i] + j;
        }
        ++place;
      }
    }
  }
  return listed;
}

/// Lists the values >= from_order_key(bound). For all threads of the end; without a barrier.
template <DType kType>
__device__ __forceinline__ void list_candidates(CandidateList& list, const RowQuads<kType>& row,
                                                const RowIndex& index, const GroupKeys& keys,
                                                std::int32_t bound) {
  const int groups = list_groups(list.group[warp_of_thread()], index, keys, bound);
  int listed = CandidateList::kOverflow;
  if (groups <= CandidateList::kOfWarp) {
    switch (row.access()) {
      case QuadAccess::vectors:
        listed = append_candidates<QuadAccess::vectors>(list, row, groups, bound);
        break;
      case QuadAccess::values:
        listed = append_candidates<QuadAccess::values>(list, row, groups, bound);
        break;
      case QuadAccess::bytes:
        listed = append_candidates<QuadAccess::bytes>(list, row, groups, bound);
        break;
    }
  }
  if (lane_of_thread() == 0) {
    list.count[warp_of_thread()] =
        listed > CandidateList::kOfWarp ? CandidateList::kOverflow : listed;
  }
}

}  // namespace fairdraw::cuda
