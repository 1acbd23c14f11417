// What the end of a row works on: shared memory of the row's first block, where the ring of tiles
// was.
//
// Parameters of the row are here too, not in registers: the rare ends are functions of their own,
// and what they were given by reference would lie in local memory, of every thread and every row.
#pragma once

#include <cstdint>

#include "cuda/tiles/block_masses.cuh"
#include "cuda/tiles/candidate_bound.cuh"
#include "cuda/tiles/candidate_list.cuh"
#include "cuda/tiles/row_cut.cuh"

namespace fairdraw::cuda {

struct RowEnd {
  std::int64_t number;  ///< of the row
  RowFilters filters;
  TileRule rule;
  TileKeys keys;
  RowIndex index;

  TileSearchMemory search;
  KeySelection::Memory selection;
  BlockMasses::Memory masses;
  CandidateList list;
  std::int32_t low_of_warp[kEndWarps];
};

}  // namespace fairdraw::cuda
