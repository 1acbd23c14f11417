// A row with top_p alone: its nucleus and its token, by all blocks of the row.
//
// Contract. The first pass has given every block of the row the whole index, keys and sums, and
// those of a warp's tiles that it read last are in its ring (begin_sample). All threads of all
// blocks take part; whether there is a token is the same for all threads of the first block, and
// whether a pass was made for all of the row. Where there is none the caller goes by brackets
// (bracket_search.cuh), which know no exceptions.
//
// Algorithm and cost. Where the index bounds a small nucleus (nucleus_target.cuh) the row ends by a
// list of what reaches the bound (small_nucleus.cuh): 16 us in place of 35 for one row of V =
// 128256 on an H100. Else all blocks guess between which two values the threshold must lie: the
// bracket (nucleus_guess.cuh). A pass over the tiles whose largest value reaches it adds up what is
// above it, by tile, and lists what is in it; then the first block alone finds the threshold in the
// list, and the token (nucleus_search.cuh). Where the threshold is not in the bracket the next pass
// is over what is beside it, up to eight times. While the first block searches, the others have
// nothing to do: they draw, too, from what is in their memory, and write nothing. So the code of
// the draw is in L2 when the first block comes to it (38.3 to 36.7 us, one row of V = 128256).
//
// Where the time of a flat row goes on an H200, V = 128256, float32, in thousands of cycles, by
// clocks read in the kernel, with one row (16 blocks) and with 256 (a block each):
//   largest value and mass 6, 4; counts 12, 29; brackets 10, 12; pass 6, 85; sums and masses of the
//   list 8, 6; threshold 7, 9; kept values to their tiles 3, 4; tile 5, 3; token 6, 3; all 75, 235
// With one row two fifths of that are instructions that come from memory: each runs once. With 256
// the pass is 320 issue slots a tile, the first pass 280.
//
// What was tried:
//   a value a lane appended to the list in a loop of its own    the warp stays apart after it: the
//                                                               137 slots of a tile's sum ran 2.5
//                                                               times a tile
//   64-bit additions in shared memory                           loops: 57 thousand cycles for the
//                                                               threshold among 325 tied values; 20
//   all phases in one function                                  1 KB of spilled registers, 4 us
//   a bound whose search a guess calls                          78 registers of the guess, which L2
//                                                               keeps: 14 us a row
//   both counts of a bin side by side                           16 of 32 banks for each
//   a pass that may weigh slowly                                its registers are those of a caller
//   largest values counted at the middle of their bin           a token with half of the mass makes
//                                                               the bracket too long for the list
//
// Determinism: integers decide. The guess is made by floats, by every block in the same order, so
// that blocks agree; but for the bracket nothing of it shows.
#pragma once

#include <cstdint>

#include "cuda/tiles/nucleus_guess.cuh"
#include "cuda/tiles/nucleus_search.cuh"
#include "cuda/tiles/shared_row.cuh"
#include "cuda/tiles/small_nucleus.cuh"

namespace fairdraw::cuda {

/// What became of a row.
enum class NucleusOutcome : std::int32_t {
  drawn,  ///< or the first block does it
  needs_bracket,
  not_begun,  ///< the index is as it was
  missed,     ///< the sums in the index are without meaning
};

/// What comes after a bracket that was wrong by more than is usual: what is beside it, as far as
/// the list has room. Empty where that is all of the wide one.
template <bool kFromProbs>
__device__ __forceinline__ KeyInterval beside(const KeyInterval& bracket, bool above,
                                              const NucleusMemory& memory) {
  // Distances are those of value_bins.cuh. A float of them rounds, and a step by none would not
  // end.
  const auto moved = [&](std::int32_t key, float step) {
    if constexpr (kFromProbs) return key + static_cast<std::int32_t>(step);
    return order_key(from_order_key(key) + step);
  };
  const bool any = memory.step == INFINITY;
  if (above) {
    const std::int32_t low = bracket.high + 1;
    const std::int32_t high = memory.wide.high;
    return {low, any ? high : min(high, max(low, moved(low, memory.step)))};
  }
  const std::int32_t high = bracket.low - 1;
  const std::int32_t low = memory.wide.low;
  return {any ? low : max(low, min(high, moved(high, -memory.step))), high};
}

/// A row of which a bound is in the bracket's place, by all threads of all blocks: the end, or
/// needs_bracket where the list is too long.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ NucleusOutcome end_from_bound(const RowsTask& task, int blocks_log2,
                                                      unsigned char* dynamic, PassOrder* order,
                                                      float scale) {
  const SharedRow place{task, blocks_log2, dynamic, order};
  const unsigned listed = SmallNucleusList<kForm, kFromProbs>(place, {scale, true})
                              .run(place.nucleus<kForm>()->bracket.low);
  if (listed > NucleusMemory::kMostOfSmall) {
    begin_nucleus<kForm, kFromProbs>(task, blocks_log2, dynamic);
    return NucleusOutcome::needs_bracket;
  }
  if (RowCluster::of_grid(blocks_log2).rank != 0) return NucleusOutcome::drawn;
  const auto n = static_cast<int>(listed);
  const bool has_ended =
      n <= kWarp ? end_few<kForm, kFromProbs>(task, blocks_log2, dynamic, order, scale, n)
                 : end_many<kForm, kFromProbs>(task, blocks_log2, dynamic, order, scale, n);
  return has_ended ? NucleusOutcome::drawn : NucleusOutcome::not_begun;
}

/// By all threads of all blocks: a bracket, for which a pass is needed; or the end of a row that
/// needs none. One function for the kernel: what it calls between two passes takes registers from
/// both.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ NucleusOutcome begin_bracket(const RowsTask& task, int blocks_log2,
                                                     unsigned char* dynamic, PassOrder* order,
                                                     float scale, float top_p) {
  const NucleusSize size =
      measure_nucleus<kForm, kFromProbs>(task, blocks_log2, dynamic, scale, top_p);
  if (size == NucleusSize::unknown) return NucleusOutcome::not_begun;
  if (size == NucleusSize::small) {
    const NucleusOutcome outcome =
        end_from_bound<kForm, kFromProbs>(task, blocks_log2, dynamic, order, scale);
    if (outcome != NucleusOutcome::needs_bracket) return outcome;
  }
  return guess_nucleus<kForm, kFromProbs>(task, blocks_log2, dynamic, scale)
             ? NucleusOutcome::needs_bracket
             : NucleusOutcome::not_begun;
}

/// For all threads of all blocks. word: the first thread's of the first block.
template <RowForm kForm, bool kFromProbs>
__device__ __forceinline__ NucleusOutcome end_with_nucleus(const SharedRow& place, float scale,
                                                           float top_p, std::uint64_t word) {
  constexpr int kMostTurns = 7;  // then the list was ever too short: 8 passes are what others take
  const RowsTask& task = place.task;
  const int log2 = place.blocks_log2;
  NucleusMemory& memory = *place.nucleus<kForm>();
  const RowCluster cluster{1 << log2, 0};
  const bool is_first = (blockIdx.x & ((1U << static_cast<unsigned>(log2)) - 1)) == 0;
  if (threadIdx.x == 0) memory.word = word;
  const NucleusOutcome begun =
      begin_bracket<kForm, kFromProbs>(task, log2, place.dynamic, place.order, scale, top_p);
  if (begun != NucleusOutcome::needs_bracket) return begun;
  KeyInterval bracket = memory.bracket;
#pragma unroll 1
  for (int turn = 0;; ++turn) {
    // In place: a function that is called takes half as long again.
    NucleusPass<kForm, kFromProbs>(place, {scale, true}).run(bracket);
    cluster.sync();
    if (!is_first) {
      draw_from_nucleus<kForm, kFromProbs>(task, log2, place.dynamic, scale, bracket.low,
                                           /*writes=*/false);
      return NucleusOutcome::drawn;
    }
    const NucleusSearch found =
        search_nucleus<kForm, kFromProbs>(task, log2, place.dynamic, scale, bracket);
    if (found.place == NucleusPlace::in_bracket) {
      tell_blocks(cluster, place.order, {PassKind::row_has_ended, {}, 0, 0});
      cluster.arrive();
      draw_from_nucleus<kForm, kFromProbs>(task, log2, place.dynamic, scale, found.threshold,
                                           /*writes=*/true);
      return NucleusOutcome::drawn;
    }
    if (turn == kMostTurns || found.place == NucleusPlace::unknown) return NucleusOutcome::missed;
    bracket = beside<kFromProbs>(bracket, found.place == NucleusPlace::above, memory);
    if (bracket.low > bracket.high) return NucleusOutcome::missed;
    tell_blocks(cluster, place.order, {PassKind::nucleus, {}, bracket.low, bracket.high});
    cluster.sync();
  }
}

}  // namespace fairdraw::cuda
