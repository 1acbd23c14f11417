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

#include "cuda/tiles/block_draw.cuh"
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

/// What bins of values hold, by an estimate, and how uncertain that is.
struct Estimate {
  float values = 0;
  float mass = 0;
  float sampled = 0;    ///< that sampled values stand for, of the mass
  float of_sample = 0;  ///< variance, if every sampled value counted for it
  float of_bins = 0;    ///< variance, since values are not in the middle of their bin
};

/// Of a row with top_p alone (nucleus_row.cuh): in place of the groups' keys, with the list behind.
struct NucleusMemory {
  static constexpr int kKeyBins = 256;
  static constexpr int kMostRanked = 128;
  static constexpr int kMostWarps = kMaxThreadsOfBlock / kWarp;

  struct alignas(8) Entry {
    std::int32_t key;
    std::int32_t id;
  };

  union {
    uint2 bins[kMaxThreadsOfBlock];  ///< of values about as large, this block's; a bin a thread
    std::uint64_t masses[kKeyBins];  ///< of the list, by bins of keys
  };
  uint128_t mass_of_warp[kMostWarps];
  uint128_t mass, row_target;  ///< the row's, and what of it the nucleus must reach
  float of_largest;            ///< what the largest value weighs (float_of_mass)
  struct Reaching {
    unsigned mass, tiles;
  } reaching[4];  ///< values that are tried for a bound (nucleus_target.cuh)
  std::uint64_t sum_of_warp[2][kMostWarps];
  float2 of_warp[kMostWarps];
  Estimate estimates[kMostWarps];
  std::uint32_t sizes[kMaxBlocksOfRow];  ///< values that each block has listed, or wanted to
  std::uint64_t ranked_weight[kMostRanked];
  std::int32_t ranked_key[kMostRanked];
  TileDrawMemory<std::uint64_t> drawn;
  std::uint64_t word, above, above_with_ties;
  std::uint32_t listed;  ///< by this block
  int edges[5];        ///< bins: where the wide bracket begins, the narrow one, where they end; the
                       ///< middle
  float of_wide[2];    ///< values above the wide bracket, and with it
  float of_narrow[2];  ///< the same of the narrow one
  KeyInterval bracket, wide;
  bool lists_all;       ///< the bracket begins with the largest value, and few tokens are in it
  float middle;         ///< of the bracket, in bins
  float deviation;      ///< in bins
  float values_of_bin;  ///< about the middle
  float step;           ///< distance that a bracket with room in the list may cover; inf: any
  std::int32_t largest_key;
  int drop;  ///< bits by which weights relative to the largest value are finer than the unit
  std::uint64_t target;  ///< in the unit
  int ranked, crossing;
  std::int32_t threshold;

  /// Which word of a bin counts what: in turns, so that neighbouring bins lie in all banks.
  __device__ static bool has_units_first(int bin) { return (bin & 16) != 0; }
  /// Sampled values, which stand for themselves and others.
  __device__ std::uint32_t* sampled_of(int bin) {
    return reinterpret_cast<std::uint32_t*>(bins) + 2 * bin + (has_units_first(bin) ? 1 : 0);
  }
  /// What others weigh that have been read.
  __device__ std::uint32_t* units_of(int bin) {
    return reinterpret_cast<std::uint32_t*>(bins) + 2 * bin + (has_units_first(bin) ? 0 : 1);
  }

  __device__ Entry* list() const {
    return reinterpret_cast<Entry*>(const_cast<NucleusMemory*>(this) + 1);  // NOLINT
  }

  /// The list of a small nucleus, in the same place: each block's own, and then that of all.
  static constexpr int kMostOfSmall = 1024;
  struct Small {
    static constexpr int kMostRanked = 256;

    Entry entry[kMostOfSmall];
    std::uint64_t ranked_weight[kMostRanked];
    std::int32_t ranked_key[kMostRanked];
  };
  __device__ Small& small() const {
    static_assert(sizeof(Small) <= kLeast * sizeof(Entry));
    return *reinterpret_cast<Small*>(list());
  }

  /// Entries of the list, at least and as a rule at most. Many rows of large vocabularies have so
  /// many values near their threshold that a list that holds them needs a block's whole
  /// multiprocessor.
  static constexpr int kLeast = 1536;
  static constexpr int kMost = 4096;
  static constexpr int kMostOfWholeMultiprocessor = 8192;
  /// Those for which so many bytes have room.
  __host__ static constexpr int entries_in(int bytes, int most) {
    const int room =
        (bytes - static_cast<int>(sizeof(NucleusMemory))) / static_cast<int>(sizeof(Entry)) / 2 * 2;
    return room < kLeast ? kLeast : room > most ? most : room;
  }
};

/// Bytes between the ring and the index (RowsTask::middle_bytes), where the others of a block take
/// `other_bytes`. Two blocks share a multiprocessor of compute capability 9.0, unless a block may
/// have `most_bytes`.
__host__ inline int middle_bytes(std::int64_t tiles, int other_bytes, int most_bytes) {
  constexpr int kHalf = (228 * 1024) / 2 - 1024 - 256;
  const int of_half = NucleusMemory::entries_in(kHalf - other_bytes, NucleusMemory::kMost);
  const int of_most = NucleusMemory::entries_in(most_bytes - other_bytes,
                                                NucleusMemory::kMostOfWholeMultiprocessor);
  const int entries = of_half > of_most ? of_half : of_most;
  const int nucleus = static_cast<int>(sizeof(NucleusMemory)) +
                      entries * static_cast<int>(sizeof(NucleusMemory::Entry));
  return nucleus > GroupKeys::bytes(tiles) ? nucleus : GroupKeys::bytes(tiles);
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
    static_assert(sizeof(LargestOfWarps) <= sizeof(NucleusMemory));
    return reinterpret_cast<LargestOfWarps*>(dynamic +
                                             end_bytes<kForm>(static_cast<int>(blockDim.x)));
  }
  template <RowForm kForm>
  __device__ __forceinline__ RowBlocks blocks(int tiles) const {
    const auto threads = static_cast<int>(blockDim.x);
    return {blocks_log2, tiles, dynamic + end_bytes<kForm>(threads) + task.middle_bytes};
  }
  template <RowForm kForm>
  __device__ NucleusMemory* nucleus() const {
    return reinterpret_cast<NucleusMemory*>(dynamic +
                                            end_bytes<kForm>(static_cast<int>(blockDim.x)));
  }
  /// Entries of the list of all blocks together.
  __device__ int nucleus_capacity() const {
    return (task.middle_bytes - static_cast<int>(sizeof(NucleusMemory))) /
           static_cast<int>(sizeof(NucleusMemory::Entry));
  }
};

/// This block's part of a pass for a nucleus (nucleus_row.cuh).
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void called_pass_of_nucleus(const RowsTask& task, int blocks_log2,
                                                    unsigned char* dynamic, float scale,
                                                    KeyInterval bracket);

/// This block's part of the pass that its order asks for.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void pass_of_block(const RowsTask& task, int blocks_log2,
                                           unsigned char* dynamic, PassOrder* order, float scale) {
  const SharedRow place{task, blocks_log2, dynamic, order};
  const TileRow<kForm> row(task.rows, task.allowed, place.number(), kFromProbs, place.task.edits);
  RowEnd& end = *place.end();
  if (order->kind == PassKind::nucleus) {
    called_pass_of_nucleus<kForm, kFromProbs>(task, blocks_log2, dynamic, scale,
                                              {order->low, order->high});
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
