// A row that several blocks share: where its parts lie in shared memory, and passes of all blocks.
//
// Dynamic shared memory of a block, the same in every block of a row: the ring of the first pass,
// in whose place the first block has the row's end later, and the end of a bracket's list; the
// groups' keys; the index.
//
// Cooperation. Every block of a row takes part in every barrier of the cluster. The threads that
// end the row (kEndThreads of the first block) give an order for each pass, and all others wait for
// one: before an order there is a barrier, and one after its pass. The last order says that the row
// has ended. The passes are functions with few arguments, all in registers: what a function gets by
// reference lies in local memory of every thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/tiles/mass_above.cuh"
#include "cuda/tiles/row_end.cuh"

namespace fairdraw::cuda {

/// Bytes of shared memory from its beginning to the groups' keys.
template <RowForm kForm>
__host__ __device__ constexpr int end_bytes(int threads) {
  const int ring = TileRing<kForm>::kLaneBytes * threads;
  const int end = static_cast<int>(sizeof(RowEnd));
  return ring > end ? ring : end;
}

/// Entries of a bracket's list that there is room for.
template <RowForm kForm>
__device__ unsigned bracket_capacity() {
  const int room =
      end_bytes<kForm>(static_cast<int>(blockDim.x)) - static_cast<int>(offsetof(RowEnd, list));
  return static_cast<unsigned>(room) / static_cast<unsigned>(sizeof(BracketList::Entry));
}

/// Bytes between the ring and the index: the groups' keys, or what a row that proposes needs.
constexpr int middle_bytes(std::int64_t tiles) {
  return GroupKeys::bytes(tiles) > ProposalMemory::bytes(tiles) ? GroupKeys::bytes(tiles)
                                                                : ProposalMemory::bytes(tiles);
}

/// Where a row is.
struct SharedRow {
  const RowsTask& task;
  int blocks_log2;
  unsigned char* dynamic;
  PassOrder* order;  ///< this block's

  __device__ RowEnd* end() const { return reinterpret_cast<RowEnd*>(dynamic); }
  __device__ std::int64_t number() const {
    return blockIdx.x >> static_cast<unsigned>(blocks_log2);
  }
  template <RowForm kForm>
  __device__ __forceinline__ GroupKeys groups(int tiles) const {
    return GroupKeys(dynamic + end_bytes<kForm>(static_cast<int>(blockDim.x)), tiles);
  }
  /// In their place, where no groups are asked for.
  template <RowForm kForm>
  __device__ __forceinline__ LargestOfWarps* largest_of_warps() const {
    return &proposals<kForm>()->largest;
  }
  template <RowForm kForm>
  __device__ __forceinline__ RowBlocks blocks(int tiles) const {
    const auto threads = static_cast<int>(blockDim.x);
    return {blocks_log2, tiles, dynamic + end_bytes<kForm>(threads) + middle_bytes(tiles)};
  }
  /// In their place, too.
  template <RowForm kForm>
  __device__ __forceinline__ ProposalMemory* proposals() const {
    return reinterpret_cast<ProposalMemory*>(dynamic +
                                             end_bytes<kForm>(static_cast<int>(blockDim.x)));
  }
};

/// This block's part of a pass for proposals, by integers.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void called_exact_mass_above(const RowsTask& task, int blocks_log2,
                                                     unsigned char* dynamic, float scale) {
  const SharedRow place{task, blocks_log2, dynamic, nullptr};
  const TileRow<kForm> row(task.rows, task.allowed, place.number(), kFromProbs, task.edits);
  const TileRing<kForm> ring(dynamic);
  const RowBlocks blocks = place.blocks<kForm>(row.tiles());
  MassAbove<kForm, kFromProbs>(row, ring, blocks, *place.proposals<kForm>(), scale).run();
}

/// The same by floats where the order says so.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void called_mass_above(const RowsTask& task, int blocks_log2,
                                               unsigned char* dynamic, float scale) {
  const SharedRow place{task, blocks_log2, dynamic, nullptr};
  ProposalMemory& memory = *place.proposals<kForm>();
  if (kFromProbs || memory.order.exact) {
    called_exact_mass_above<kForm, kFromProbs>(task, blocks_log2, dynamic, scale);
    return;
  }
  const TileRow<kForm> row(task.rows, task.allowed, place.number(), false, task.edits);
  const TileRing<kForm> ring(dynamic);
  const RowBlocks blocks = place.blocks<kForm>(row.tiles());
  RoughMassAbove<kForm>(row, ring, blocks, memory, scale).run();
}

/// This block's part of the pass that its order asks for.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void pass_of_block(const RowsTask& task, int blocks_log2,
                                           unsigned char* dynamic, PassOrder* order, float scale) {
  const SharedRow place{task, blocks_log2, dynamic, order};
  const TileRow<kForm> row(task.rows, task.allowed, place.number(), kFromProbs, place.task.edits);
  RowEnd& end = *place.end();
  if (order->kind == PassKind::mass_above) {
    called_mass_above<kForm, kFromProbs>(task, blocks_log2, dynamic, scale);
    return;
  }
  if (order->kind == PassKind::sample) {
    SamplePass<kForm, kFromProbs>(row, place.blocks<kForm>(row.tiles()), end.guess).run();
    return;
  }
  BracketPass<kForm, kFromProbs>(row, place.blocks<kForm>(row.tiles()), *order, end.list_size,
                                 end.bracket_entries(), bracket_capacity<kForm>(), scale)
      .run();
}

/// By all threads of the first block, or of its end: what the blocks are to do after the next
/// barrier of the cluster.
__device__ __forceinline__ void tell_blocks(const RowCluster& cluster, PassOrder* place,
                                            const PassOrder& order) {
  if (static_cast<int>(threadIdx.x) < cluster.blocks) {
    *cluster.at(place, static_cast<int>(threadIdx.x)) = order;
  }
}

/// By the threads of the end: tells all blocks what to do next.
__device__ __forceinline__ void give_order(const RowCluster& cluster, RowEnd& end, PassOrder* place,
                                           const PassOrder& order) {
  sync_end();  // the counts of the pass before have been read
  tell_blocks(cluster, place, order);
  if (threadIdx.x == 0) end.list_size = {0, 0, 0};
  cluster.sync();
}

/// By the threads of the end: a pass of all blocks.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void pass_of_all(const RowsTask& task, int blocks_log2,
                                         unsigned char* dynamic, PassOrder* place,
                                         PassOrder order) {
  RowEnd& end = *reinterpret_cast<RowEnd*>(dynamic);
  const RowCluster cluster{1 << blocks_log2, 0};
  give_order(cluster, end, place, order);
  pass_of_block<kForm, kFromProbs>(task, blocks_log2, dynamic, place, end.rule.scale);
  cluster.sync();
}

/// The threads that do not end the row: passes, until it has ended.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void take_part(const RowsTask& task, int blocks_log2,
                                       unsigned char* dynamic, PassOrder* order, float scale) {
  const RowCluster cluster{1 << blocks_log2, 0};  // what follows does not ask for the rank
#pragma unroll 1
  while (true) {
    cluster.sync();
    if (order->kind == PassKind::row_has_ended) return;
    pass_of_block<kForm, kFromProbs>(task, blocks_log2, dynamic, order, scale);
    cluster.sync();
  }
}

}  // namespace fairdraw::cuda
