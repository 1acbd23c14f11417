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

#include "cuda/tiles/row_end.cuh"

namespace fairdraw::cuda {

/// Bytes of shared memory from its beginning to the groups' keys.
template <DType kType>
__host__ __device__ constexpr int end_bytes(int threads) {
  const int ring = TileRing<kType>::kLaneBytes * threads;
  const int end = static_cast<int>(sizeof(RowEnd));
  return ring > end ? ring : end;
}

/// Entries of a bracket's list that there is room for.
template <DType kType>
__device__ unsigned bracket_capacity() {
  const int room =
      end_bytes<kType>(static_cast<int>(blockDim.x)) - static_cast<int>(offsetof(RowEnd, list));
  return static_cast<unsigned>(room) / static_cast<unsigned>(sizeof(BracketList::Entry));
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
  template <DType kType>
  __device__ __forceinline__ GroupKeys groups(int tiles) const {
    return GroupKeys(dynamic + end_bytes<kType>(static_cast<int>(blockDim.x)), tiles);
  }
  template <DType kType>
  __device__ __forceinline__ RowBlocks blocks(int tiles) const {
    return {blocks_log2, tiles,
            dynamic + end_bytes<kType>(static_cast<int>(blockDim.x)) + GroupKeys::bytes(tiles)};
  }
};

/// This block's part of the pass that its order asks for.
template <DType kType, bool kFromProbs>
__device__ __noinline__ void pass_of_block(const RowsTask& task, int blocks_log2,
                                           unsigned char* dynamic, PassOrder* order, float scale) {
  const SharedRow place{task, blocks_log2, dynamic, order};
  const TileRow<kType> row(task.rows, task.allowed, place.number(), kFromProbs, place.task.edits);
  RowEnd& end = *place.end();
  if (order->kind == PassKind::sample) {
    SamplePass<kType, kFromProbs>(row, place.blocks<kType>(row.tiles()), end.guess).run();
    return;
  }
  BracketPass<kType, kFromProbs>(row, place.blocks<kType>(row.tiles()), *order, end.list_size,
                                 end.bracket_entries(), bracket_capacity<kType>(), scale)
      .run();
}

/// By the threads of the end: tells all blocks what to do next.
__device__ __forceinline__ void give_order(const RowCluster& cluster, RowEnd& end, PassOrder* place,
                                           const PassOrder& order) {
  sync_end();  // the counts of the pass before have been read
  if (static_cast<int>(threadIdx.x) < cluster.blocks) {
    *cluster.at(place, static_cast<int>(threadIdx.x)) = order;
  }
  if (threadIdx.x == 0) end.list_size = {0, 0, 0};
  cluster.sync();
}

/// By the threads of the end: a pass of all blocks.
template <DType kType, bool kFromProbs>
__device__ __noinline__ void pass_of_all(const RowsTask& task, int blocks_log2,
                                         unsigned char* dynamic, PassOrder* place,
                                         PassOrder order) {
  RowEnd& end = *reinterpret_cast<RowEnd*>(dynamic);
  const RowCluster cluster{1 << blocks_log2, 0};
  give_order(cluster, end, place, order);
  pass_of_block<kType, kFromProbs>(task, blocks_log2, dynamic, place, end.rule.scale);
  cluster.sync();
}

/// The threads that do not end the row: passes, until it has ended.
template <DType kType, bool kFromProbs>
__device__ __noinline__ void take_part(const RowsTask& task, int blocks_log2,
                                       unsigned char* dynamic, PassOrder* order, float scale) {
  const RowCluster cluster{1 << blocks_log2, 0};  // what follows does not ask for the rank
#pragma unroll 1
  while (true) {
    cluster.sync();
    if (order->kind == PassKind::row_has_ended) return;
    pass_of_block<kType, kFromProbs>(task, blocks_log2, dynamic, order, scale);
    cluster.sync();
  }
}

}  // namespace fairdraw::cuda
