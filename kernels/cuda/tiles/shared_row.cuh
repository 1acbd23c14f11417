// Row that several blocks share: the layout of the blocks' shared memory, and the passes of all
// blocks.
//
// Dynamic shared memory has the same layout in every block of a row. First comes the ring buffer of
// the first pass, which is later replaced by the data for finishing the row (in the first block) or
// by the lists and bins of passes; then come the keys of groups, and then the index.
//
// Cooperation. Every block of a row takes part in every barrier of the row's cluster. The threads
// that finish the row (kEndThreads threads of the first block) give an order for each pass, for
// which all other threads wait. One barrier follows the order, and another barrier follows the
// pass. The last order says that the row has ended. The passes are functions with few arguments,
// which are all in registers, because an argument passed by reference would be in the local memory
// of every thread.
//
// The data for finishing a row (RowEnd) include the row's parameters: rarely executed code is out
// of line, and arguments passed to it by reference would be in local memory, for every thread and
// every row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/block_masses.cuh"
#include "cuda/device/shared_memory.cuh"
#include "cuda/tiles/candidate_bound.cuh"
#include "cuda/tiles/candidate_list.cuh"
#include "cuda/tiles/mass_above.cuh"
#include "cuda/tiles/row_cut.cuh"
#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/threshold_pass.cuh"
#include "cuda/tiles/tile_draw.cuh"
#include "cuda/tiles/tile_search.cuh"

namespace fairdraw::cuda {

/// Result of proposals that bounds and rough sums do not decide.
inline constexpr std::int32_t kUndecided = -2;

/// Data with which the threads that finish a row work.
struct RowEnd {
  RowFilters filters;
  TileWeighing rule;
  TileKeys keys;
  RowIndex index_in_shared;  ///< result of index()
  std::uint64_t* sums;       ///< sums of the tiles in the index
  RowCut cut;                ///< cut that the passes of all blocks have found
  std::int32_t token;        ///< accepted proposal; -1: none; kUndecided: the cut decides
  float floor;               ///< smallest value that min_p keeps, which is written to RowRecord

  TileSearchMemory search;
  BlockMasses::Memory masses;
  TileGroups groups;
  BlockScratch<uint128_t> drawn;
  BinRule bin_rule;
  int bin_edges[2];       ///< first and last bin of the bracket
  BracketSize list_size;  ///< size of `list`, if the list has the values of a bracket
  std::int32_t low_of_warp[kEndWarps];
  CandidateList list;

  /// Returns the index of the row.
  __device__ __forceinline__ RowIndex index() const {
    return {&in_shared(*index_in_shared.keys), &in_shared(*index_in_shared.sums),
            index_in_shared.tiles};
  }
};

/// Returns the number of bytes of shared memory before the keys of groups.
template <RowForm kForm>
__host__ __device__ constexpr int end_bytes(int threads) {
  const int ring = TileRing<kForm>::kLaneBytes * threads;
  const int end = static_cast<int>(sizeof(RowEnd));
  return ring > end ? ring : end;
}

/// Returns the number of bytes between the ring buffer and the index, for the keys of groups or the
/// memory of a row that draws by proposals.
constexpr int middle_bytes(std::int64_t tiles) {
  return GroupKeys::bytes(tiles) > ProposalMemory::bytes(tiles) ? GroupKeys::bytes(tiles)
                                                                : ProposalMemory::bytes(tiles);
}

/// Row as the code of a block reads it, in the shared memory of each of the row's blocks. The first
/// pass has few registers, and spilled registers are loaded from L2, because shared memory takes
/// the place of the L1 cache. Functions out of line would also load the arguments of the launch
/// from L2.
template <RowForm kForm>
struct RowAsked {
  RowStatus status;  ///< status that follows from the parameters alone
  bool greedy;
  std::int32_t largest;  ///< largest key of the row, in the first block and, in rows with min_p
                         ///< alone, in all blocks; read after the barrier that follows the index
  float min_p;           ///< result of min_p_asked(), in rows with min_p as their only filter
  TileWeighing rule;
  RowFilters filters;  ///< filters of the row, without its random word
  RowOfTiles<kForm> row;
  RowOutputs outputs;
  PassOrder order;  ///< order for the next pass, for this block
  ArrivingParameters arriving;
  DrawWords words;  ///< random words of the row's draw, which are set in the first block only
  std::uint64_t word[kMaxThreadsOfBlock / kWarp];  ///< random word of each warp of the first block;
                                                   ///< the word of the first warp is also the row's
};

/// Place of a row in shared memory.
template <RowForm kForm>
struct SharedRow {
  RowAsked<kForm>* row_asked;  ///< result of asked()
  unsigned char* dynamic;
  int blocks_log2;

  __device__ __forceinline__ RowAsked<kForm>& asked() const { return in_shared(*row_asked); }
  __device__ __forceinline__ unsigned char* memory() const { return &in_shared(*dynamic); }
  __device__ __forceinline__ TileRing<kForm> ring() const { return TileRing<kForm>(memory()); }
  __device__ __forceinline__ RowEnd* end() const { return reinterpret_cast<RowEnd*>(memory()); }
  __device__ std::int64_t number() const {
    return blockIdx.x >> static_cast<unsigned>(blocks_log2);
  }
  /// Returns the blocks of the row, for code of the first block that does not ask for its own rank.
  __device__ RowCluster cluster() const { return {1 << blocks_log2, 0}; }
  __device__ __forceinline__ GroupKeys groups(int tiles) const {
    return GroupKeys(memory() + end_bytes<kForm>(static_cast<int>(blockDim.x)), tiles);
  }
  __device__ __forceinline__ RowBlocks blocks(int tiles) const {
    const auto threads = static_cast<int>(blockDim.x);
    return {blocks_log2, tiles, memory() + end_bytes<kForm>(threads) + middle_bytes(tiles)};
  }
  /// Returns the memory of a row that draws by proposals, which also replaces the keys of groups.
  __device__ __forceinline__ ProposalMemory* proposals() const {
    return reinterpret_cast<ProposalMemory*>(memory() +
                                             end_bytes<kForm>(static_cast<int>(blockDim.x)));
  }
};

/// Runs this block's part of a pass for proposals.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void called_mass_above(SharedRow<kForm> place) {
  const RowOfTiles<kForm> row = place.asked().row;
  const TileRing<kForm> ring = place.ring();
  const RowBlocks blocks = place.blocks(row.tiles());
  MassAbove<kForm, kFromProbs>(row, ring, blocks, *place.proposals(), place.asked().rule.scale)
      .run();
}

/// Runs this block's part of the pass that the order requests.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void pass_of_block(SharedRow<kForm> place) {
  const PassOrder& order = place.asked().order;
  if (order.kind == PassKind::mass_above) {
    called_mass_above<kForm, kFromProbs>(place);
    return;
  }
  const RowOfTiles<kForm> row = place.asked().row;
  RowEnd& end = *place.end();
  ThresholdPass<kForm, kFromProbs>(row, place.blocks(row.tiles()), order, end.list_size, end.list,
                                   end.bin_rule, place.asked().rule.scale)
      .run();
}

/// Sends all blocks of a row the order for the work that they do after the cluster's next barrier.
/// All threads of the first block must call this function, or all threads that finish the row.
template <RowForm kForm>
__device__ __forceinline__ void tell_blocks(const SharedRow<kForm>& place, const PassOrder& order) {
  const RowCluster cluster = place.cluster();
  if (static_cast<int>(threadIdx.x) < cluster.blocks) {
    *cluster.at(&place.asked().order, static_cast<int>(threadIdx.x)) = order;
  }
}

/// Sends the next order to all blocks, and waits at a barrier. All threads that finish the row must
/// call this function.
template <RowForm kForm>
__device__ __forceinline__ void give_order(const SharedRow<kForm>& place, const PassOrder& order) {
  sync_end();  // wait until all threads have read the counts of the last pass
  tell_blocks(place, order);
  if (threadIdx.x == 0) place.end()->list_size = {0, 0, 0};
  place.cluster().sync();
}

/// Ends the work of all threads that do not finish the row, without waiting for them. All threads
/// of the first block must call this function, or all threads that finish the row, and must give no
/// order afterwards. `had_passes` says whether an order was given before. The first order of every
/// row is that the row has ended, so that rows without passes need no message. A result is written
/// after this call, because the arrival would wait for the write.
template <RowForm kForm>
__device__ __forceinline__ void release_blocks(const SharedRow<kForm>& place, bool had_passes) {
  if (had_passes) tell_blocks(place, {PassKind::row_has_ended, {}, 0, 0});
  if (place.blocks_log2 == 0) {
    sync_block();  // the other threads already wait
  } else if (had_passes) {
    place.cluster().arrive();
  } else {
    place.cluster().announce();
  }
}

/// Runs a pass with all blocks of the row. All threads that finish the row must call this function.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void pass_of_all(SharedRow<kForm> place, PassOrder order) {
  give_order(place, order);
  pass_of_block<kForm, kFromProbs>(place);
  place.cluster().sync();
}

/// Runs this block's parts of passes until the row has ended. All threads that do not finish the
/// row must call this function.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void take_part(SharedRow<kForm> place) {
#pragma unroll 1
  while (true) {
    place.cluster().sync();
    if (place.asked().order.kind == PassKind::row_has_ended) return;
    pass_of_block<kForm, kFromProbs>(place);
    place.cluster().sync();
  }
}

}  // namespace fairdraw::cuda
