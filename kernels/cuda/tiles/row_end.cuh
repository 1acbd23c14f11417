// Data for finishing a row, in the shared memory of the row's first block, where they replace the
// ring buffer of tiles.
//
// The row's parameters are here, too, instead of in registers: rarely executed code is out of line,
// and arguments passed to it by reference would be in local memory, for every thread and every row.
#pragma once

#include <cstdint>

#include "cuda/device/shared_memory.cuh"
#include "cuda/tiles/block_masses.cuh"
#include "cuda/tiles/brackets/bracket_guess.cuh"
#include "cuda/tiles/brackets/bracket_pass.cuh"
#include "cuda/tiles/candidate_bound.cuh"
#include "cuda/tiles/candidate_list.cuh"
#include "cuda/tiles/row_cut.cuh"
#include "cuda/tiles/tile_draw.cuh"

namespace fairdraw::cuda {

/// Candidates that remain in the last step of a bracket search.
struct RankedCandidates {
  std::int32_t key[kEndThreads];
  std::int32_t id[kEndThreads];
  uint128_t weight[kEndThreads];
};

struct RowEnd {
  RowFilters filters;
  TileWeighing rule;
  TileKeys keys;
  RowIndex index_in_shared;  ///< result of index()
  std::uint64_t* sums;       ///< sums of the tiles in the index
  RowCut cut;                ///< cut that the passes of all blocks have found
  std::int32_t token;        ///< accepted proposal; -1: none
  float floor;               ///< smallest value that min_p keeps, which is written to RowRecord

  TileSearchMemory search;
  KeySelection::Memory selection;
  BlockMasses::Memory masses;
  TileGroups groups;
  TileDrawMemory<uint128_t> drawn;
  GuessMemory guess;
  BracketList list_size;
  unsigned bracket_capacity;  ///< number of list entries that fit between `list` and the end of the
                              ///< memory
  std::int32_t low_of_warp[kEndWarps];
  RankedCandidates ranked;
  CandidateList list;  ///< last member, because the entries of a bracket's list replace it and also
                       ///< use the memory after it

  /// Returns the index of the row.
  __device__ __forceinline__ RowIndex index() const {
    return {&in_shared(*index_in_shared.keys), &in_shared(*index_in_shared.sums),
            index_in_shared.tiles};
  }
  __device__ BracketList::Entry* bracket_entries() const {
    return reinterpret_cast<BracketList::Entry*>(
        const_cast<std::int32_t*>(&list.key[0]));  // NOLINT: of memory that is not const
  }
};

}  // namespace fairdraw::cuda
