// Row kernel, which reads rows tile by tile, filters them by min_p, top_k and top_p, greedily or
// not at all, and draws one token per row.
//
// Contract. Input: logits or probabilities of any dtype, stride and alignment, with allowed bits
// and perhaps edits (edit_planes.h); the parameters of each row, which may be in device memory.
// Output per row: a token, its status, and optionally a record of the survivors. The kernel writes
// nothing else, and no row's output depends on another row.
//
// Algorithm and cost. A cluster of blocks reads the row once and sends the row's index to its first
// block. The index has the largest value of each tile; for lists, the largest value of each group
// of 16 or 32 ids; and the sum of each tile, if a draw or top_p needs the sums. Parameters are
// loaded while the first tiles are in flight. The further steps depend on the row's parameters:
//   no filter     the first block draws from the sums, and reads one tile (plain_row.cuh)
//   greedy        it reads the first tile with the largest value
//   min_p alone   all blocks read the tiles that reach its threshold again and sum the tokens that
//                 it keeps; then the first block draws
//   top_k         also with top_p: a bound from the index (candidate_bound.cuh), the values that
//                 reach it (candidate_list.cuh), the cuts and the draw among them
//                 (short_list_end.cuh, long_list.cuh), all by the first block
//   top_p         without top_k: tokens are proposed from the sums and accepted by bounds from the
//                 index; if the bounds do not decide, all blocks sum the mass above the proposals
//                 (row_proposals.cuh). If this does not decide either, or if a word or a record
//                 needs the threshold, the row goes on like all others
//   all others    passes of all blocks over the tiles again (threshold_search.cuh), for top_k that
//                 is not small, for ties, and for rows without an accepted proposal. Usually two
//                 passes, then a draw from the sums of the kept tokens
//
// The kernel is limited mainly by its registers. Code that is inlined beside the first pass, which
// all rows need, takes registers and instruction cache from the pass. Two blocks of 512 threads per
// SM leave 64 registers per thread. Their shared memory takes nearly all of the L1 cache, so a
// spilled register is loaded from L2 for every tile. Even code that is skipped must be loaded from
// memory once per call. So the kernel inlines only the first pass and the code that finishes rows
// without a list. Rows with a list, rows that draw by proposals, their passes and all rare code are
// out of line. The first pass calls no function, because a call would leave it only half of the
// registers. Tiles that need a function call are processed later: tiles that make the row fail, and
// tiles for which float arithmetic is not exact. The row and its parameters are kept in shared
// memory (RowAsked), because a function out of line would load the arguments of the launch from L2,
// one after another. One kernel reads the rows that vector loads can read, and another kernel reads
// all other rows. Calls in which each block has an SM of its own use an instance with 128 registers
// per thread (filter_few_tiles.cu).
//
// The table has microseconds on an H200: V = 128256, float32, parameters in arrays, cold L2 cache,
// graph replays in turns with the floor alone, median of 30, 512 threads. The floor is one read of
// the rows. Where peaked and flat logits are not named, the time is that of the slower of the two.
//   rows (blocks of each)     1 (16)        8 (8)         64 (2)        256 (1)
//   floor                      5.5           6.8          15.7          41.6
//   no filter                 10.4          12.4          20.6          50.7
//   greedy                     8.6           9.9          18.4          45.5
//   min_p 0.05, peaked        11.4          12.5          22.8          52.3
//   min_p 0.05, flat          12.1          14.1          30.8          83.1
//   top_k 50                  15.3          16.8          24.2          55.4
//   top_k 50 and top_p 0.9    16.1          17.5          25.1          56.2
//   top_k 1000                26.5          27.1          35.4          73.5
//   top_p 0.9, peaked         13.7          20.2          32.7          88.0
//   top_p 0.9, flat           19.8          21.0          37.1          89.6
//   top_p 0.5, peaked         13.8          20.9          35.6          82.0
//   top_p 0.5, flat           19.4          21.2          39.0         100.7
// Measurements of other shapes are in reports/baselines/cuda_shapes.json. One flat row
// of top_p 0.9 takes, in thousands of cycles: tiles 7, barrier 1, sums 2, proposals and their
// bounds 4.5, decision 1.5, order 2, pass 4.5, barrier 1, decision 1.5. The draw without filters
// takes 4.5 thousand cycles after the barrier. Replays with warm caches save less than 1.5
// microseconds.
//
// Where the code lies in memory matters, too. Builds whose code for rows without filters is the
// same but for the order of instructions took 51, 55 or 57 microseconds at 256 rows on one H200. So
// a difference of less than a tenth at many rows says nothing about a change.
//
// Alternatives that were tried, with their times in microseconds. The baseline has everything in
// one kernel. Each pair below has the baseline's time in replays that alternate with the
// alternatives, and in replays that alternate with the floor, for the four numbers of rows. No
// filter takes 20.1 / 14.1, 20.3 / 15.6, 29.1 / 25.8, 60.8 / 60.5. The filter min_p on flat rows,
// by passes of filters, takes 35 / 31, 37 / 33, 63 / 61, 135 / 135.
//   both ways to read a row in it              44 thousand instructions in place of 30
//   the row's ends in it, nothing called       no filter 16.9, 18.2, 27.5, 58.3
//   ends without lists in one function         no filter 3 more, min_p flat 8 more at 256 rows
//   parameters of the call in shared memory    7 more from 64 rows on
//   8 quads at a time for long lists           top_k 1000 17 more: spills
//   the second pass from the last tile back    min_p flat 3 more at 256 rows
//   more blocks of a row                       4 at 64 rows: no filter 37; 2 at 256 rows: 79
//   top_p by a threshold that is found first   39, 44, 81, 159; 1300 lines more
//   the mass above proposals by integers       top_p flat 32, 35, 69, 164
//   the same by floats, but without a hint     top_p flat 31, 32, 53, 131
//   code of proposals asked for in L2 ahead    top_p flat 37, 41, 103: a function whose address is
//                                              taken is called with more of its registers spilled
//   64 registers for few rows, too             top_k 50 19, 20, 32; top_p flat 31, 32, 55
//   128 registers for many rows                256 rows: no filter 67, top_k 50 77, top_k 1000 101
//   parameters in registers before the tiles   no filter 12.9, 15.1, 32, 78: 25 more registers
//   shared memory aligned to 16 bytes          no filter 30 and 76 at 64 and 256 rows: a warp's
//                                              vectors straddle rows of banks
//   octaves by floats, others by a function    top_k 1000 4 to 8 more: the call costs registers
//   a plain row's tile by sums of groups       2 more at 256 rows
//   generic accesses to shared memory          top_k 1000 and top_p 0.9 49, 52, 64, 119; top_p flat
//                                              21, 25, 48, 101
//   bins in place of pivots for lists          top_k 1000 5 to 7 more: more code, each run once
//   a pass of all blocks that lists            top_k 400 10 more, 1000 6 more: two barriers
//   lists in any order, by atomics             top_k 50 and top_p 0.9 1 to 2 more: ids are ranked
//   the tiles' keys in registers, for bounds   top_k 1000 2 to 3 more, top_k 50 of one row 1 less
//   quads counted, then read again to list     top_k 1000 6 more
//   a larger L1 cache                          no change
//   128 registers though clusters do not fit   top_k 50 of 16 and 32 rows 29, 34 in place of 21, 27
//
// Numerics: the weights are defined in common/tile_weights.h. Cuts are thresholds on logits, and
// not on weights. Determinism: only integers are summed, and the result depends neither on the
// number of blocks nor on their order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/parameters.h"
#include "cuda/device/early_start.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/tiles/candidate_bound.cuh"
#include "cuda/tiles/filter_rows.h"
#include "cuda/tiles/long_list.cuh"
#include "cuda/tiles/min_p_key.cuh"
#include "cuda/tiles/plain_row.cuh"
#include "cuda/tiles/row_proposals.cuh"
#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/short_list_end.cuh"
#include "cuda/tiles/threshold_search.cuh"

namespace fairdraw::cuda {

/// Draws a token from a row; the row's index must have the sums of the tokens that a cut keeps. All
/// threads that finish the row must call this function.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void draw_by_sums(SharedRow<kForm> place, RowCut cut) {
  RowEnd& end = *place.end();
  sync_end();  // wait until the first thread has written
  const RowOfTiles<kForm> values = place.asked().row;
  const IndexedRow<RowOfTiles<kForm>, kFromProbs, CutRule> row(
      values, end.index(), end.rule, {from_order_key(cut.low), cut.tie_end}, end.keys.largest);
  row.sum_groups(end.groups, kEndWarps);
  sync_end();
  if (warp_of_thread() != 0) return;
  const DrawnToken drawn = row.draw(end.groups, end.filters.word);
  if (lane_of_thread() == 0) {
    const std::int32_t token = end.token >= 0 ? end.token : drawn.token;
    write_drawn(place.asked().outputs, RowEndKind::threshold, token, end.keys.largest, cut,
                drawn.total, end.floor);
  }
}

/// Indexes the tiles of this warp that an earlier pass left out, which are the tiles that make the
/// row fail, and the tiles for which float arithmetic is not exact. The tiles have a function of
/// their own, because a pass that called functions for them would have few registers.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ std::int32_t index_slowly(const RowsTask& task, SharedRow<kForm> place,
                                                  TileWeighing rule) {
  const RowOfTiles<kForm> row(task.rows, task.allowed, place.number(), kFromProbs, task.edits);
  const RowBlocks blocks = place.blocks(row.tiles());
  const TileSteps steps = blocks.steps();
  using Pass = TilePass<kForm, kFromProbs>;
  std::int32_t largest = INT_MIN;
#pragma unroll 1
  for (int tile = steps.first; tile < steps.end; tile += steps.step) {
    RawTile raw;
    load_again(row, tile, raw);
    float x[kLaneValues];
    const std::int32_t key = Pass::largest(row, raw, x);
    blocks.send(tile, {key, rule.wants_sums ? Pass::sum(x, key, rule) : 0});
    largest = max(largest, key);
  }
  return largest;
}

/// Part of a row that one block processes; in the first block also the code that finishes the row.
template <RowForm kForm, bool kFromProbs>
class FilterTilesRow {
  static constexpr std::int32_t kLowest = kFromProbs ? 1 : kEmptyTileKey + 1;
  using Pass = TilePass<kForm, kFromProbs>;
  using Ring = TileRing<kForm>;

 public:
  /// Returns the number of bytes of dynamic shared memory per block.
  __host__ static constexpr int dynamic_bytes(int threads, std::int64_t tiles) {
    return end_bytes<kForm>(threads) + middle_bytes(tiles) + index_bytes(tiles);
  }

  __device__ __forceinline__ FilterTilesRow(const RowsTask& task, const SharedRow<kForm>& place)
      : place_(place),
        asked_(place.asked()),
        task_(task),
        number_(place.number()),
        row_(task_.rows, task_.allowed, number_, kFromProbs, task_.edits),
        ring_(place.ring()),
        groups_(place.groups(row_.tiles())),
        blocks_(place.blocks(row_.tiles())) {}

  __device__ __forceinline__ void run() {
    if (task_.active.given() && task_.active.data[number_] == 0) {
      // The kernel waits for edit_rows even here, because a kernel that starts after this one may
      // write to memory that edit_rows still writes.
      if (row_.is_processed()) await_edits();
      fail(RowStatus::inactive);
      return;
    }
    blocks_.clear_largest(asked_.largest);
    blocks_.cluster().announce();
    if (warp_of_thread() == 0) asked_.arriving.start(task_, number_);
    ArrivingParameters::commit();
    index_all();
    let_next_kernel_start();  // the next kernel writes kept sets, and waits until all of this
                              // kernel has ended
    blocks_.cluster().arrive();
    if (way_ == Way::by_first_block && !blocks_.is_first()) return;
    blocks_.cluster().wait();
    rule_ = asked_.rule;
    if (way_ == Way::by_first_block || way_ == Way::by_min_p) {
      end_plain();
      return;
    }
    std::int32_t token = -1;
    if (way_ == Way::by_proposals && blocks_.is_first()) {
      if (task_.edits.fault_of(number_) == RowFault::none) token = called_propose(place_);
      if (token >= 0 && task_.records == nullptr) {
        release_blocks(place_, place_.proposals()->has_passed);
        if (threadIdx.x == 0) {
          write_drawn(RowOutputs::of(task_, number_), RowEndKind::proposal, token, 0, {}, 0);
        }
        return;
      }
    }
    if (!blocks_.is_first() || threadIdx.x >= kEndThreads) {
      take_part<kForm, kFromProbs>(place_);
      return;
    }
    called_end_filtered(task_, place_, token);
  }

 private:
  /// Method that finishes the row, and the blocks that take part.
  enum class Way : std::int32_t {
    by_first_block,  ///< the first block alone finishes rows without filters, greedy rows and rows
                     ///< that fail
    by_min_p,        ///< rows with min_p alone: all blocks sum the tokens that min_p keeps
    by_proposals,  ///< rows with top_p but without top_k: the first block finishes the row, and all
                   ///< blocks run its passes
    by_list,       ///< rows with any other filters, and rows without an accepted proposal: blocks
                   ///< work as in by_proposals
  };

  /// Computes the random word of this warp while tiles are in flight, in the first block of the
  /// row. In rows that draw by proposals, each warp computes the word of one attempt; in other
  /// rows, only the first warp computes a word, which is the row's.
  __device__ __forceinline__ void prepare_word() {
    const bool proposes = way_ == Way::by_proposals;
    if (!proposes && warp_of_thread() != 0) return;
    const DrawWords words = words_of_row(task_, number_, asked_.arriving);
    std::uint64_t word =
        words.of_attempt(proposes ? static_cast<std::uint32_t>(warp_of_thread()) : 0U);
    if (task_.words != nullptr) word = task_.words[number_];
    if (lane_of_thread() == 0) asked_.word[warp_of_thread()] = word;
    if (threadIdx.x == 0) asked_.words = words;
  }

  __device__ __forceinline__ void index_all() {
    std::int32_t largest = INT_MIN;
    bool left = false;  // whether tiles are left for index_slowly
    visit_tiles(
        row_, ring_, blocks_.steps(), [&] { prepare(); },
        [&](int tile, const RawTile& raw) {
          float x[kLaneValues];
          bool fault = false;
          const std::int32_t key = Pass::largest(row_, raw, x, fault);
          if (wants_groups_) {
            groups_.template send<kForm, kFromProbs>(blocks_.cluster(), tile, x);
          }
          bool exact = true;
          const std::uint64_t sum = rule_.wants_sums ? Pass::quick_sum(x, key, rule_, exact) : 0;
          if (!kFromProbs && hints_) {
#pragma unroll
            for (const float value : x) {
              const float weight = rough_exp2(__fmaf_rn(value, rule_.scale, -hint_.octave));
              above_hint_ += value > hint_.value ? weight : 0.0F;
            }
          }
          left = left || fault || !exact;
          blocks_.send(tile, {key, sum});
          largest = max(largest, key);
        });
    if (left) largest = index_slowly<kForm, kFromProbs>(task_, place_, rule_);
    if (hints_) {
      const float above = reduce_warp(left ? NAN : above_hint_, Add{});
      if (lane_of_thread() == 0) place_.proposals()->above_hint[warp_of_thread()] = above;
    }
    blocks_.raise_largest(largest, way_ == Way::by_min_p, asked_.largest);
  }

  /// Prepares the row's parameters while the first tiles are in flight.
  __device__ __forceinline__ void prepare() {
    if constexpr (kForm.access == TileAccess::vectors) {
      ArrivingParameters::await<Ring::kStages>();
    } else {
      ArrivingParameters::await<0>();
    }
    sync_block();  // wait until the first warp has waited for the parameters
    const RowParameters parameters = asked_.arriving.parameters(kFromProbs);
    const TieRule tie_rule = asked_.arriving.tie_rule();
    const FilterOrder filter_order = asked_.arriving.filter_order();
    const RowStatus status = check(parameters, tie_rule, filter_order);
    const bool greedy =
        is_greedy(parameters) && !(task_.top_k_1_keeps_ties && parameters.top_k == 1);
    const bool ends_alone = greedy || status != RowStatus::ok;
    RowFilters filters{};
    filters.vocab = row_.vocab();
    filters.top_k =
        top_k_is_on(parameters.top_k, row_.vocab()) && !ends_alone ? parameters.top_k : 0;
    filters.top_p = ends_alone ? 1.0F : parameters.top_p;
    filters.min_p = ends_alone ? 0.0F : parameters.min_p;
    filters.lowest_id = tie_rule == TieRule::lowest_id;
    filters.by_row_mass =
        filters.top_p_on() && (!filters.top_k_on() || filter_order == FilterOrder::joint);
    way_ = Way::by_list;
    if (!filters.top_k_on() && !filters.top_p_on()) {
      way_ = filters.min_p_on() ? Way::by_min_p : Way::by_first_block;
    } else if (!filters.top_k_on() && task_.tokens != nullptr && task_.words == nullptr) {
      way_ = Way::by_proposals;
    }
    wants_groups_ = filters.top_k_on();
    // Without min_p, the index has the mass of the row; with min_p, another pass sums the tokens
    // that min_p keeps. Proposals are drawn from all allowed tokens of the tiles.
    rule_ = {ends_alone || kFromProbs ? 1.0F : logit_scale(parameters.temperature),
             !ends_alone &&
                 (way_ == Way::by_proposals ||
                  (!filters.min_p_on() && (way_ == Way::by_first_block || filters.by_row_mass)))};
    if (threadIdx.x == kWarp) {  // a thread of the second warp, because the first warp computes a
                                 // random word
      if (way_ == Way::by_min_p) asked_.min_p = min_p_asked<kFromProbs>(filters.min_p);
      asked_.status = status;
      asked_.greedy = greedy;
      asked_.filters = filters;
      asked_.rule = rule_;
      asked_.order.kind = PassKind::row_has_ended;
      // The row is constructed a second time, because a copy of row_ would occupy registers.
      asked_.row = RowOfTiles<kForm>(task_.rows, task_.allowed, number_, kFromProbs, task_.edits);
      asked_.outputs = RowOutputs::of(task_, number_);
    }
    if (blocks_.is_first() && !ends_alone) prepare_word();
    blocks_.cluster().await_all();
    hints_ = way_ == Way::by_proposals && may_hint(place_, row_, filters);
    if (hints_) {
      sync_block();  // wait until the second warp has written
      hint_ = find_hint<kForm>(place_);
    }
  }
  /// Returns whether the first pass may look for a hint (row_proposals.cuh). Processed rows have no
  /// hint, because edits may not be available yet.
  __device__ __forceinline__ static bool may_hint(const SharedRow<kForm>& place,
                                                  const RowOfTiles<kForm>& row,
                                                  const RowFilters& filters) {
    return !kFromProbs && place.blocks_log2 == 0 && !filters.min_p_on() && !row.is_processed() &&
           row.tiles() >= warps_of_block();
  }

  __device__ __forceinline__ void fail(RowStatus status) const {
    if (blocks_.is_first() && threadIdx.x == 0) {
      write_failure(RowOutputs::of(task_, number_), status);
    }
  }
  __device__ __forceinline__ RowStatus status_of(std::int32_t largest_key) const {
    if (asked_.status != RowStatus::ok) return asked_.status;
    return status_of_key(largest_key, task_.edits.fault_of(number_));
  }

  /// Finishes a row without top_k and top_p, with all blocks that still take part.
  __device__ __forceinline__ void end_plain() {
    const std::int32_t largest = asked_.largest;
    const RowStatus status = status_of(largest);
    if (status != RowStatus::ok) {
      fail(status);
      return;
    }
    MinPRule keep;
    if (way_ == Way::by_min_p) {
      keep = min_p_rule<kFromProbs>(asked_.min_p, from_order_key(largest), rule_.scale);
    }
    const PlainRow<kForm, kFromProbs> plain(task_, number_, row_, blocks_, rule_, keep, largest);
    if (way_ == Way::by_min_p) {
      plain.filter(ring_);
      blocks_.cluster().arrive();
      if (!blocks_.is_first()) return;
      blocks_.cluster().wait();
    }
    write_keys(RowOutputs::of(task_, number_), blocks_.index(), static_cast<int>(blockDim.x));
    if (asked_.greedy) {
      plain.end_greedy();
    } else {
      plain.draw(place_.end()->drawn, asked_.word[0], asked_.filters.min_p);
    }
  }

  /// Returns the smallest key that min_p keeps.
  __device__ __forceinline__ static std::int32_t floor_key(const RowAsked<kForm>& asked,
                                                           std::int32_t largest) {
    if (!asked.filters.min_p_on()) return kLowest;
    return smallest_key_kept<kFromProbs>(asked.filters.min_p, asked.rule.scale, kLowest, largest);
  }

  /// Returns the token of a row that draws by proposals to all threads of the first block, -1 if no
  /// proposal is accepted or the row fails, or kUndecided. The function is out of line for the same
  /// reason as called_end_filtered.
  __device__ __noinline__ static std::int32_t called_propose(SharedRow<kForm> place) {
    RowAsked<kForm>& asked = place.asked();
    const RowOfTiles<kForm> row = asked.row;
    const std::int32_t largest = asked.largest;
    // If the row fails, its status is written later.
    if (asked.status != RowStatus::ok || largest <= kEmptyTileKey || largest >= kNegativeKey) {
      return -1;
    }
    const std::int32_t token =
        RowProposals<kForm, kFromProbs>(place, row, largest, floor_key(asked, largest))
            .run(asked.words, asked.word[warp_of_thread()], may_hint(place, row, asked.filters));
    if (token < 0 && threadIdx.x == 0) asked.word[0] = asked.words.of_survivors();
    return token;
  }

  /// Finishes a row with filters, with kEndThreads threads of the first block. The function is out
  /// of line, because inlined code would take registers from the first pass.
  __device__ __noinline__ static void called_end_filtered(const RowsTask& task,
                                                          SharedRow<kForm> place,
                                                          std::int32_t token) {
    const RowAsked<kForm>& asked = place.asked();
    RowEnd& end = *place.end();
    const RowBlocks blocks = place.blocks(asked.row.tiles());
    const RowIndex index = blocks.index();
    const TileKeys keys = find_tile_keys(index);
    RowStatus status = asked.status;
    if (status == RowStatus::ok) {
      const bool is_processed = asked.row.is_processed();
      status = status_of_key(keys.largest,
                             is_processed ? task.edits.fault_of(place.number()) : RowFault::none);
    }
    if (status != RowStatus::ok) {
      release_blocks(place, true);
      if (threadIdx.x == 0) write_failure(asked.outputs, status);
      return;
    }
    write_keys(asked.outputs, index, kEndThreads);
    const RowCut floor{floor_key(asked, keys.largest), asked.filters.vocab};
    if (threadIdx.x == 0) {
      // Other threads read these members after a barrier.
      const bool proposes = asked.filters.top_p_on() && !asked.filters.top_k_on();
      end.filters = asked.filters;
      end.filters.word = asked.word[0];
      end.rule = asked.rule;
      end.index_in_shared = index;
      end.sums = blocks.sums();
      end.token = token;
      end.keys = keys;
      end.floor = proposes ? from_order_key(floor.low) : INFINITY;
    }
    sync_end();
    if (end_with_list(place, end, index, keys, floor)) return;
    search_threshold<kForm, kFromProbs>(place, floor);
    if (end.token == kUndecided) accept_by_threshold<kForm, kFromProbs>(place, floor.low);
    release_blocks(place, true);
    draw_by_sums<kForm, kFromProbs>(place, end.cut);
  }

  /// Writes the keys of the row's tiles, with the first `threads` threads of the block.
  __device__ __forceinline__ static void write_keys(const RowOutputs& outputs,
                                                    const RowIndex& index, int threads) {
    if (outputs.keys == nullptr) return;
#pragma unroll 1
    for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += threads) {
      outputs.keys[tile] = index.keys[tile];
    }
  }

  /// Finishes the row if the values that top_k keeps fit into a list, and returns whether they fit.
  /// The function also computes the mass of the row.
  __device__ __forceinline__ static bool end_with_list(const SharedRow<kForm>& place, RowEnd& end,
                                                       const RowIndex& index, const TileKeys& keys,
                                                       const RowCut& floor) {
    const RowAsked<kForm>& asked = place.asked();
    const RowFilters filters = asked.filters;
    if (filters.by_row_mass) {
      if (filters.min_p_on()) {
        pass_of_all<kForm, kFromProbs>(place,
                                       {PassKind::sum_and_list, floor, floor.low, floor.low - 1});
      }
      const uint128_t mass = mass_of_sums<kFromProbs>(end);
      if (threadIdx.x == 0) end.filters.row_mass = mass;
      sync_end();
    }
    if (!filters.top_k_on()) return false;
    const GroupKeys groups = place.groups(index.tiles);
    const std::int32_t bound =
        max(floor.low, CandidateBound<kFromProbs>{index, groups, keys}.of_top_k(
                           end.search, filters.top_k, kLowest));
    const RowOfTiles<kForm> row = asked.row;
    list_candidates<kForm, kFromProbs>(end.list, RowQuads<kForm>(row), index, groups, bound);
    sync_end();
    const CandidateList::Size size = end.list.size();
    if (size.overflow) return false;
    release_blocks(place, filters.by_row_mass && filters.min_p_on());
    if (size.total <= kEndThreads) {
      const RowWeigher<kFromProbs> weigh(asked.rule, keys.largest);
      end_short_list(asked.outputs, filters, index, weigh, end, size.total);
    } else {
      end_long_list<kFromProbs>(asked.outputs, end, size.total, bound);
    }
    return true;
  }

  SharedRow<kForm> place_;
  RowAsked<kForm>& asked_;  ///< readable after the next barrier of the row's blocks
  const RowsTask& task_;
  std::int64_t number_;
  RowOfTiles<kForm> row_;
  Ring ring_;
  GroupKeys groups_;
  RowBlocks blocks_;
  Way way_ = Way::by_first_block;
  TileWeighing rule_{};
  bool wants_groups_ = false;
  bool hints_ = false;
  ProposalMemory::Hint hint_{};
  float above_hint_ = 0;
};

// The template parameters of the kernel are not structs, because nvcc does not support structs
// there.
template <DType kType, TileAccess kAccess, bool kFromProbs, int kBlocksOfSm>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, kBlocksOfSm)
    filter_tiles_kernel(const __grid_constant__ RowsTask task, int blocks_log2) {
  constexpr RowForm kForm{kType, kAccess};
  __shared__ RowAsked<kForm> asked;
  // The memory is aligned so that the vectors of a warp in the ring fill whole rows of banks.
  extern __shared__ __align__(128) unsigned char dynamic[];
  FilterTilesRow<kForm, kFromProbs>(task, {&asked, dynamic, blocks_log2}).run();
}

/// Enqueues the row kernel for rows of one form; the instance has the registers for kBlocksOfSm
/// blocks per SM. Returns the CUDA error of the launch.
template <RowForm kForm, bool kFromProbs, int kBlocksOfSm>
cudaError_t launch_filter_tiles(const RowsTask& task, const TileSpread& spread,
                                cudaStream_t stream) {
  using Row = FilterTilesRow<kForm, kFromProbs>;
  constexpr auto* kKernel = filter_tiles_kernel<kForm.type, kForm.access, kFromProbs, kBlocksOfSm>;
  const std::int64_t tiles = tiles_of(task.rows.vocab);
  const SpreadNeeds needs{[&](int threads) { return Row::dynamic_bytes(threads, tiles); },
                          task.edits.given() && !task.parameters_come_late};
  return launch_spread<kKernel>(task.rows.rows, spread, needs, stream, task);
}

}  // namespace fairdraw::cuda
