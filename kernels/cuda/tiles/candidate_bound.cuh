// A bound below which no survivor lies, from a row's index alone.
//
// top_k: at least k tiles have a value that reaches the k-th largest tile maximum, so it bounds the
// k-th largest value; groups of 32 ids in place of tiles where k is not small beside their number,
// because the more tiles reach the bound, the more values do.
// top_p: the largest values of the tiles weigh something; where those from some tile on weigh what
// the nucleus must hold, the nucleus lies above that tile's maximum.
#pragma once

#include <cstdint>

#include "cuda/tiles/group_keys.cuh"
#include "cuda/tiles/key_selection.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_search.cuh"

namespace fairdraw::cuda {

/// Bounds of one row. For the whole block.
struct CandidateBound {
  /// Most of the tiles (groups) that may reach a bound for top_k: 1 of this many. A quarter of them
  /// holds 1.15 values each that reach the bound, if values are spread evenly.
  static constexpr int kOneOf = 4;

  const RowIndex& index;
  const GroupKeys& groups;
  const TileKeys& keys;

  /// At least k allowed values reach it; `lowest` where the index says nothing.
  __device__ std::int32_t of_top_k(TileSearchMemory& search, KeySelection::Memory& memory, int k,
                                   std::int32_t lowest) const {
    if (k <= index.tiles / kOneOf) {
      return keys.count < k ? lowest : search_tiles(search, index, keys, k, k / 8);
    }
    if (k > index.tiles * kGroupsOfTile / 2) return lowest;
    KeySelection selection = cleared(memory);
    const std::int32_t floor = keys.smallest >> GroupKeys::kDropped << GroupKeys::kDropped;
    const KeyCut cut = selection.select({floor, keys.largest}, k, k / 8, [&](const auto& count) {
      for_each_tile(
          [&](int tile) { groups.for_each(tile, [&](std::int32_t key) { count(key, 1); }); });
    });
    return cut.reached >= k ? cut.key : lowest;
  }

  /// The values that reach it weigh at least `target`; false where the index does not say so.
  template <bool kFromProbs>
  __device__ bool of_top_p(KeySelection::Memory& memory, uint128_t target,
                           const RowWeigher<kFromProbs>& weigh, std::int32_t& bound) const {
    // In units that 2^12 tiles cannot overflow: a weight has at most 104 bits.
    constexpr int kUnit = 104 - 19;
    const uint128_t units = (target >> kUnit) + 1;
    if (units > INT_MAX / 2) return false;
    const int wanted = static_cast<int>(units);
    KeySelection selection = cleared(memory);
    const KeyCut cut = selection.select(
        {keys.smallest, keys.largest}, wanted, wanted / 16, [&](const auto& count) {
          for_each_tile([&](int tile) {
            const std::int32_t key = index.keys[tile];
            if (key < keys.smallest) return;
            count(key, static_cast<int>(weigh(from_order_key(key), key) >> kUnit));
          });
        });
    bound = cut.key;
    return cut.reached >= wanted;
  }

 private:
  /// One barrier.
  __device__ static KeySelection cleared(KeySelection::Memory& memory) {
    KeySelection selection(memory);
    selection.clear();
    sync_end();
    return selection;
  }

  template <class Visit>
  __device__ void for_each_tile(const Visit& visit) const {
    for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += kEndThreads) {
      visit(tile);
    }
  }
};

}  // namespace fairdraw::cuda
