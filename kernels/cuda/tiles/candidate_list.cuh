// The values of a row that reach a bound, listed in token-id order in shared memory.
//
// Only groups of 32 ids whose largest value may reach the bound are read again; the groups' keys
// are in shared memory (group_keys.cuh). Each warp owns a run of consecutive tiles and a section of
// the list: it notes its groups that may reach the bound, a tile a lane, then reads four groups at
// a time, several loads in flight, and appends what reaches it. So no warp waits for another, and
// the sections one after the other are in token-id order. A section that overflows is said, not
// written.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/tiles/block_masses.cuh"
#include "cuda/tiles/group_keys.cuh"
#include "cuda/tiles/row_quads.cuh"

namespace fairdraw::cuda {

/// In shared memory.
struct CandidateList {
  static constexpr int kOfWarp = 256;  ///< room of a section
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
/// no room. Each lane has four consecutive tiles at a time.
__device__ __forceinline__ int list_groups(std::uint16_t* groups, const RowIndex& index,
                                           const GroupKeys& keys, std::int32_t bound) {
  constexpr int kOfLane = 32 / kGroupsOfTile;
  const int share = (index.tiles + kEndWarps - 1) / kEndWarps;
  const int begin = warp_of_thread() * share;
  int listed = 0;
#pragma unroll 1
  for (int first = 0; first < share; first += kOfLane * kWarp) {
    const int place_of_lane = first + lane_of_thread() * kOfLane;
    unsigned reaching = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int tile = begin + place_of_lane + i;
      const bool there = place_of_lane + i < share && tile < index.tiles;
      if (there && index.keys[tile] >= bound) {
        reaching |= keys.reaching(tile, bound) << (i * kGroupsOfTile);
      }
    }
    const int hits = __popc(reaching);
    int place = listed + warp_inclusive_sum(hits) - hits;
    listed += __reduce_add_sync(kAllLanes, hits);
    if (listed > CandidateList::kOfWarp) return CandidateList::kOverflow;
    const int first_group = (begin + place_of_lane) * kGroupsOfTile;
#pragma unroll 1
    for (; reaching != 0; reaching &= reaching - 1) {
      groups[place++] =
          static_cast<std::uint16_t>(first_group + __ffs(static_cast<int>(reaching)) - 1);
    }
  }
  __syncwarp();
  return listed;
}

/// A store without a branch around it.
__device__ __forceinline__ void store_shared_if(bool condition, std::int32_t* at,
                                                std::int32_t value) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p st.shared.u32 [%0], %1;\n\t}" ::"r"(
          static_cast<unsigned>(__cvta_generic_to_shared(at))),
      "r"(value), "r"(condition ? 1U : 0U)
      : "memory");
}

/// Reads the warp's groups, kAtOnce times four of them, and appends what reaches the bound; how
/// many values do. All loads come before the first use: they take longer than all else here.
template <bool kVectors, int kAtOnce, DType kType>
__device__ __forceinline__ int append_candidates(CandidateList& list, const RowQuads<kType>& row,
                                                 int groups, std::int32_t bound) {
  constexpr unsigned kQuadsOfGroup = kGroup / kQuad;
  const int warp = warp_of_thread();
  const float from = from_order_key(bound);
  const unsigned quads = static_cast<unsigned>(groups) * kQuadsOfGroup;
  const unsigned before_me = (1U << lane_of_thread()) - 1U;
  int listed = 0;
#pragma unroll 1
  for (unsigned first = 0; first < quads && listed <= CandidateList::kOfWarp;
       first += kAtOnce * kWarp) {
    typename RowQuads<kType>::Raw raw[kAtOnce];
    int id[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const unsigned quad = first + static_cast<unsigned>(i * kWarp + lane_of_thread());
      const int group = list.group[warp][min(quad, quads - 1) / kQuadsOfGroup];
      id[i] = quad < quads ? group * kGroup + static_cast<int>(quad % kQuadsOfGroup) * kQuad
                           : row.vocab();
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) row.template load<kVectors>(id[i], raw[i]);
    float x[kAtOnce][kQuad];
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      row.template convert<kVectors>(id[i], raw[i], x[i]);
      largest = fmaxf(largest, fmaxf(fmaxf(x[i][0], x[i][1]), fmaxf(x[i][2], x[i][3])));
    }
    // Most often true. But what is asked of all loads lets none of them wait for another's use.
    if (!__any_sync(kAllLanes, largest >= from)) continue;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      unsigned votes[kQuad];
      int place = listed;
#pragma unroll
      for (int j = 0; j < kQuad; ++j) {
        votes[j] = __ballot_sync(kAllLanes, x[i][j] >= from);
        place += __popc(votes[j] & before_me);
        listed += __popc(votes[j]);
      }
#pragma unroll
      for (int j = 0; j < kQuad; ++j) {
        const bool hit = x[i][j] >= from;
        const int slot = min(place, CandidateList::kOfWarp - 1);
        const bool fits = hit && place < CandidateList::kOfWarp;
        store_shared_if(fits, &list.key[warp][slot], order_key(x[i][j]));
        store_shared_if(fits, &list.id[warp][slot], id[i] + j);
        place += hit ? 1 : 0;
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
  int listed = groups;
  if (groups > 0 && groups <= CandidateList::kOfWarp) {
    constexpr int kFew = 4 * kWarp * kQuad / kGroup;
    if (!row.has_vectors()) {
      listed = append_candidates<false, 1>(list, row, groups, bound);
    } else if (groups <= kFew) {
      listed = append_candidates<true, 4>(list, row, groups, bound);
    } else {
      listed = append_candidates<true, 6>(list, row, groups, bound);
    }
  }
  if (lane_of_thread() == 0) {
    list.count[warp_of_thread()] =
        listed > CandidateList::kOfWarp ? CandidateList::kOverflow : listed;
  }
}

}  // namespace fairdraw::cuda
