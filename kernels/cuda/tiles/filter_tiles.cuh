// Row kernel: reads rows tile by tile, filters them by min_p, top_k and top_p, greedily or not at
// all, and draws one token per row.
//
// Contract. Input: rows of any dtype, stride and alignment, logits or probabilities, with allowed
// bits; parameters per row, which may be in device memory; the rows may have edits (edit_planes.h).
// Output per row: a token, its status, and optionally a record of the survivors. The kernel writes
// nothing else, and no row's output depends on another row.
//
// Algorithm and cost. A cluster of blocks reads the row once and sends its index to the first
// block: the largest value of each tile; for lists, the largest value of each group of 16 or 32
// ids; and the tiles' sums, if a draw or top_p needs them. Parameters are loaded while the first
// tiles are in flight. The rest depends on the row:
//   no filter     the first block draws from the sums, and reads one tile (plain_row.cuh)
//   greedy        it reads the first tile with the largest value
//   min_p alone   all blocks read the tiles that reach its threshold again and sum the tokens that
//                 it keeps; then the first block draws
//   top_k         also with top_p: a bound from the index (candidate_bound.cuh), the values that
//                 reach it (candidate_list.cuh), the cuts and the draw among them
//                 (short_list_end.cuh, long_list_end.cuh), all by the first block
//   top_p         without top_k: tokens are proposed from the sums and accepted by bounds from the
//                 index; if the bounds do not decide, all blocks sum the mass above the proposals
//                 (row_proposals.cuh). If no proposal is accepted, or if a word or a record needs
//                 the threshold, the row goes on like all others
//   all others    passes of all blocks over the tiles again (bracket_search.cuh): top_k that is not
//                 small, ties, rows without an accepted proposal. Usually one pass, then a draw
//                 from the sums of the kept tokens
//
// The main limit is that code inlined beside the first pass, which all rows need, costs the pass
// registers and instruction cache. Two blocks of 512 threads leave 64 registers per thread, and
// their shared memory takes nearly all of L1, so a spilled register is loaded from L2 for every
// tile. Code that is skipped is also loaded from memory, once per call. So this kernel inlines the
// first pass and the code that finishes rows without a list; rows with a list, rows that draw by
// proposals, their passes and everything rare are out of line. The first pass calls no function,
// because a call would leave the pass half of the registers. Tiles that need a function call,
// because they make the row fail or float arithmetic is not exact for them, are processed later.
// Row parameters are kept in shared memory. Rows that vector loads can read have one kernel, all
// other rows another.
//
// Measured on an H100, V = 128256, float32, arrays of parameters, cold L2, graph replay in turns
// with the floor alone, median of 30, microseconds, 512 threads; the slower of peaked and flat
// logits where they are not named:
//   rows (blocks of each)     1 (16)        8 (8)         64 (2)        256 (1)
//   floor                      5.7           7.5           19.7          55.5
//   no filter                 12.1          14.1           26.0          67.1
//   min_p 0.05, peaked        12.9          14.5           27.8          67.9
//   min_p 0.05, flat          13.7          15.9           37.8         105.6
//   top_k 50                  20.0          21.2           32.2          71.6
//   top_p 0.9, peaked         22.0          31.1          47.8         100.8
//   top_p 0.9, flat           31.6          32.4          55.0         105.2
//   top_p 0.5, peaked         22.2          31.7          50.8          98.1
//   top_p 0.5, flat           31.8          32.9          64.6         129.2
// In turns with other kernels, so that no instructions are in a cache, on an H200 (floor 5.4, 7.0,
// 15.5, 41.8): no filter 13.7, 15.0, 22.6, 51.3; greedy 8.6, 10.0, 18.9, 45.4; top_k 50 27.9, 26.6,
// 34.3, 58.0; top_k 50 with top_p 0.9 23.2, 23.2, 31.2, 59.3; top_k 1000 42.3, 41.2, 49.2, 83.7;
// top_k 5000 65.2, 64.8, 93.3, 168. Measurements of other shapes are in
// reports/baselines/cuda_shapes.json.
//
// Alternatives that were tried. The baseline has everything in one kernel (no filter 20.1 / 14.1,
// 20.3 / 15.6, 29.1 / 25.8, 60.8 / 60.5, in turns with others / with the floor; min_p flat 35 / 31,
// 37 / 33, 63 / 61, 135 / 135, by passes of filters):
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
//
// Numerics: common/tile_weights.h. Cuts are thresholds on logits, not on weights. Determinism: sums
// are of integers; the result depends neither on the number of blocks nor on their order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/parameters.h"
#include "cuda/device/early_start.h"
#include "cuda/tiles/brackets/bracket_search.cuh"
#include "cuda/tiles/candidate_bound.cuh"
#include "cuda/tiles/filter_tiles.h"
#include "cuda/tiles/long_list_end.cuh"
#include "cuda/tiles/min_p_key.cuh"
#include "cuda/tiles/plain_row.cuh"
#include "cuda/tiles/proposal_hint.cuh"
#include "cuda/tiles/row_proposals.cuh"
#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/short_list_end.cuh"

namespace fairdraw::cuda {

/// Draws a token from a row whose index has the sums of the tokens that a cut keeps. Called by the
/// threads that finish the row.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void draw_by_sums(const RowsTask& task, unsigned char* dynamic,
                                          RowCut cut) {
  RowEnd& end = *reinterpret_cast<RowEnd*>(dynamic);
  sync_end();  // after the first thread has written
  const TileRow<kForm> values(task.rows, task.allowed, end.number, kFromProbs, task.edits);
  const IndexedRow<TileRow<kForm>, kFromProbs, CutRule> row(
      values, end.index, end.rule, {from_order_key(cut.low), cut.tie_end}, end.keys.largest);
  row.sum_groups(end.groups, kEndWarps);
  sync_end();
  if (warp_of_thread() != 0) return;
  const DrawnToken drawn = row.draw(end.groups, end.filters.word);
  if (lane_of_thread() == 0) {
    const std::int32_t token = end.token >= 0 ? end.token : drawn.token;
    write_drawn(task, end.number, token, end.keys.largest, cut, drawn.total, end.floor);
  }
}

/// Indexes those of a warp's tiles that an earlier pass left out: tiles that make the row fail, and
/// tiles for which float arithmetic is not exact. A pass that called functions for such tiles would
/// have few registers.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ LargestTile index_slowly(const RowsTask& task, int blocks_log2,
                                                 unsigned char* dynamic, TileRule rule) {
  const SharedRow place{task, blocks_log2, dynamic, nullptr};
  const TileRow<kForm> row(task.rows, task.allowed, place.number(), kFromProbs, task.edits);
  const RowBlocks blocks = place.blocks<kForm>(row.tiles());
  const TileSteps steps = blocks.steps();
  using Pass = TilePass<kForm, kFromProbs>;
  LargestTile largest;
#pragma unroll 1
  for (int tile = steps.first; tile < steps.end; tile += steps.step) {
    RawTile raw;
    load_again(row, tile, raw);
    float x[kLaneValues];
    const std::int32_t key = Pass::largest(row, raw, x);
    blocks.send(tile, {key, rule.wants_sums ? Pass::sum(x, key, rule) : 0});
    if (key > largest.key) largest = {key, tile};
  }
  return largest;
}

/// Parameters of a row, in shared memory of each of the row's blocks: the first pass has few
/// registers, and spilled ones are loaded from L2, because shared memory takes L1's place.
struct RowAsked {
  RowStatus status;  ///< status of the parameters
  bool greedy;
  float min_p;  ///< result of min_p_asked(), for rows with min_p alone
  TileRule rule;
  RowFilters filters;  ///< filters of the row; the random word is set in the first block only
};

/// Part of a row that one block processes and, in the first block, the code that finishes the row.
template <RowForm kForm, bool kFromProbs>
class FilterTilesRow {
  static constexpr std::int32_t kLowest = kFromProbs ? 1 : kEmptyTileKey + 1;
  using Pass = TilePass<kForm, kFromProbs>;
  using Ring = TileRing<kForm>;

 public:
  /// Returns the bytes of dynamic shared memory per block.
  __host__ static constexpr int dynamic_bytes(int threads, std::int64_t tiles) {
    return end_bytes<kForm>(threads) + middle_bytes(tiles) + index_bytes(tiles);
  }

  __device__ __forceinline__ FilterTilesRow(const SharedRow& place, RowAsked& asked)
      : place_(place),
        asked_(asked),
        task_(place.task),
        number_(place.number()),
        row_(task_.rows, task_.allowed, number_, kFromProbs, task_.edits),
        ring_(place.dynamic),
        end_(*place.end()),
        groups_(place.groups<kForm>(row_.tiles())),
        blocks_(place.blocks<kForm>(row_.tiles())) {}

  __device__ __forceinline__ void run() {
    if (task_.active.given() && task_.active.data[number_] == 0) {
      // A kernel that starts after this one may write to memory that edit_rows still writes.
      if (row_.is_processed()) await_edits();
      fail(RowStatus::inactive);
      return;
    }
    blocks_.cluster().announce();
    index_all();
    let_next_kernel_start();  // the next kernel makes kept sets, and waits for all of this kernel
    blocks_.cluster().arrive();
    if (way_ == Way::by_first_block && !blocks_.is_first()) return;
    const bool proposes = way_ == Way::by_proposals && blocks_.is_first();
    std::uint64_t word = 0;  // random word, computed while other blocks arrive
    if (proposes) {
      word = words_of_row(task_, number_).of_attempt(static_cast<std::uint32_t>(warp_of_thread()));
    }
    blocks_.cluster().wait();
    rule_ = asked_.rule;
    if (way_ == Way::by_first_block || way_ == Way::by_min_p) {
      end_plain();
      return;
    }
    std::int32_t token = -1;
    if (proposes) {
      token = called_propose(task_, place_.blocks_log2, place_.dynamic, place_.order, asked_, word);
      if (token >= 0 && task_.records == nullptr) return;
    }
    if (!blocks_.is_first() || threadIdx.x >= kEndThreads) {
      take_part<kForm, kFromProbs>(task_, place_.blocks_log2, place_.dynamic, place_.order,
                                   rule_.scale);
      return;
    }
    called_end_filtered(task_, place_.blocks_log2, place_.dynamic, place_.order, asked_, token);
  }

 private:
  /// Group of threads and method that finish the row.
  enum class Way : std::int32_t {
    by_first_block,  ///< by the first block alone: rows without filters, greedy rows, rows that
                     ///< fail
    by_min_p,        ///< with min_p alone: all blocks sum the tokens that min_p keeps
    by_proposals,  ///< with top_p but no top_k: by the first block, and by all blocks in its passes
    by_list,       ///< like by_proposals: rows with any other filters, and rows without an accepted
                   ///< proposal
  };

  __device__ __forceinline__ void index_all() {
    LargestTile largest;
    bool left = false;  // whether tiles remain for index_slowly
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
          if (key > largest.key) largest = {key, tile};
        });
    if (left) {
      largest = index_slowly<kForm, kFromProbs>(task_, place_.blocks_log2, place_.dynamic, rule_);
    }
    if (hints_) {
      const float above = reduce_warp(left ? NAN : above_hint_, Add{});
      if (lane_of_thread() == 0) place_.proposals<kForm>()->above_hint[warp_of_thread()] = above;
    }
    if (way_ != Way::by_list) {
      blocks_.send_largest(largest, way_ == Way::by_min_p, largest_of_warps());
    }
  }

  /// Prepares the row's parameters while the first tiles are in flight.
  __device__ __forceinline__ void prepare() {
    RowParameters parameters;
    parameters.temperature = kFromProbs ? 1.0F : task_.temperature.at(number_);
    parameters.top_k = task_.top_k.at(number_);
    parameters.top_p = task_.top_p.at(number_);
    parameters.min_p = task_.min_p.at(number_);
    RowAsked asked{};
    asked.status = check(parameters);
    asked.greedy = is_greedy(parameters) && !(task_.top_k_1_keeps_ties && parameters.top_k == 1);
    const bool ends_alone = asked.greedy || asked.status != RowStatus::ok;
    RowFilters& filters = asked.filters;
    filters.vocab = row_.vocab();
    filters.top_k =
        top_k_is_on(parameters.top_k, row_.vocab()) && !ends_alone ? parameters.top_k : 0;
    filters.top_p = ends_alone ? 1.0F : parameters.top_p;
    filters.min_p = ends_alone ? 0.0F : parameters.min_p;
    filters.lowest_id = task_.tie_rule == TieRule::lowest_id;
    filters.by_row_mass =
        filters.top_p_on() && (!filters.top_k_on() || task_.filter_order == FilterOrder::joint);
    way_ = Way::by_list;
    if (!filters.top_k_on() && !filters.top_p_on()) {
      way_ = filters.min_p_on() ? Way::by_min_p : Way::by_first_block;
    } else if (!filters.top_k_on() && task_.tokens != nullptr && task_.words == nullptr) {
      way_ = Way::by_proposals;
    }
    wants_groups_ = filters.top_k_on();
    // Without min_p the index has the row's mass; with min_p another pass sums the tokens that
    // min_p keeps. Proposals are drawn from all allowed tokens of tiles.
    rule_ = {ends_alone || kFromProbs ? 1.0F : logit_scale(parameters.temperature),
             !ends_alone &&
                 (way_ == Way::by_proposals ||
                  (!filters.min_p_on() && (way_ == Way::by_first_block || filters.by_row_mass)))};
    if (threadIdx.x == 0) {
      if (way_ == Way::by_min_p) asked.min_p = min_p_asked<kFromProbs>(filters.min_p);
      if (blocks_.is_first() && !ends_alone) filters.word = random_word_of_row(task_, number_);
      asked.rule = rule_;
      asked_ = asked;
    }
    blocks_.cluster().await_all();
    hints_ = way_ == Way::by_proposals && may_hint(filters);
    if (hints_) {
      hint_ = find_hint<kForm>(task_, place_.dynamic, rule_.scale, filters.top_p);
    }
  }
  /// Returns whether the row may have a hint (proposal_hint.cuh). Processed rows have no hint,
  /// because they cannot be read yet.
  __device__ __forceinline__ bool may_hint(const RowFilters& filters) const {
    return !kFromProbs && blocks_.cluster().blocks == 1 && !filters.min_p_on() &&
           !row_.is_processed() && row_.tiles() >= warps_of_block();
  }

  /// Returns the largest key of each warp. Only valid for rows without keys of groups.
  __device__ LargestOfWarps& largest_of_warps() const {
    return *place_.template largest_of_warps<kForm>();
  }

  __device__ __forceinline__ void fail(RowStatus status) const {
    if (blocks_.is_first() && threadIdx.x == 0) write_failure(task_, number_, status);
  }
  __device__ __forceinline__ RowStatus status_of(std::int32_t largest_key) const {
    if (asked_.status != RowStatus::ok) return asked_.status;
    return status_of_key(largest_key, task_.edits.fault_of(number_));
  }

  /// Finishes a row without top_k and top_p, by all blocks that still take part.
  __device__ __forceinline__ void end_plain() {
    const LargestTile largest = blocks_.largest_of(largest_of_warps());
    const RowStatus status = status_of(largest.key);
    if (status != RowStatus::ok) {
      fail(status);
      return;
    }
    MinPRule keep;
    if (way_ == Way::by_min_p) {
      keep = min_p_rule<kFromProbs>(asked_.min_p, from_order_key(largest.key), rule_.scale);
    }
    const PlainRow<kForm, kFromProbs> plain(task_, number_, row_, blocks_, rule_, keep, largest);
    if (way_ == Way::by_min_p) {
      plain.filter(ring_);
      blocks_.cluster().arrive();
      if (!blocks_.is_first()) return;
      blocks_.cluster().wait();
    }
    write_keys(blocks_.index(), static_cast<int>(blockDim.x));
    if (asked_.greedy) {
      plain.end_greedy();
    } else {
      plain.draw(end_.drawn, asked_.filters.word, asked_.filters.min_p);
    }
  }

  /// Returns the smallest key that min_p keeps.
  __device__ __forceinline__ std::int32_t floor_key(const RowFilters& filters,
                                                    std::int32_t largest) const {
    if (!filters.min_p_on()) return kLowest;
    return smallest_key_kept<kFromProbs>(filters.min_p, rule_.scale, kLowest, largest);
  }

  /// Returns, to all threads of the first block, the token of a row that draws by proposals, or -1
  /// if no proposal is accepted. Writes the token if no record is requested. Out of line, like
  /// called_end_filtered.
  __device__ __noinline__ static std::int32_t called_propose(const RowsTask& task, int blocks_log2,
                                                             unsigned char* dynamic,
                                                             PassOrder* order, RowAsked& asked,
                                                             std::uint64_t word) {
    FilterTilesRow row({task, blocks_log2, dynamic, order}, asked);
    row.rule_ = asked.rule;
    return row.propose(word);
  }
  __device__ __forceinline__ std::int32_t propose(std::uint64_t word) {
    const LargestTile largest = blocks_.largest_of(largest_of_warps());
    if (status_of(largest.key) != RowStatus::ok) return -1;  // the status is written later
    const RowFilters& filters = asked_.filters;
    const DrawWords words = words_of_row(task_, number_);
    const std::int32_t token =
        RowProposals<kForm, kFromProbs>(place_, row_, blocks_, rule_, filters, largest.key,
                                        floor_key(filters, largest.key))
            .run(words, word, may_hint(filters));
    if (token < 0) {
      if (threadIdx.x == 0) asked_.filters.word = words.of_survivors();
    } else if (task_.records == nullptr) {
      tell_blocks(blocks_.cluster(), place_.order, {PassKind::row_has_ended, {}, 0, 0});
      blocks_.cluster().arrive();
      if (threadIdx.x == 0) write_drawn(task_, number_, token, largest.key, {}, 0);
    }
    return token;
  }

  /// Finishes a row with filters, by kEndThreads threads of the first block. Out of line, because
  /// inlined code would take registers from the first pass.
  __device__ __noinline__ static void called_end_filtered(const RowsTask& task, int blocks_log2,
                                                          unsigned char* dynamic, PassOrder* order,
                                                          RowAsked& asked, std::int32_t token) {
    FilterTilesRow row({task, blocks_log2, dynamic, order}, asked);
    row.rule_ = asked.rule;
    if (threadIdx.x == 0) {
      // Other threads read these members after a barrier.
      row.end_.number = row.number_;
      row.end_.filters = asked.filters;
      row.end_.rule = asked.rule;
      row.end_.index = row.blocks_.index();
      row.end_.sums = row.blocks_.sums();
      row.end_.bracket_capacity = bracket_capacity<kForm>();
      row.end_.token = token;
    }
    row.end_filtered();
    give_order(row.blocks_.cluster(), row.end_, order, {PassKind::row_has_ended, {}, 0, 0});
  }
  __device__ __forceinline__ void end_filtered() {
    const RowIndex index = blocks_.index();
    const TileKeys keys = find_tile_keys(index);
    const RowStatus status = status_of(keys.largest);
    if (status != RowStatus::ok) {
      fail(status);
      return;
    }
    write_keys(index, kEndThreads);
    const RowFilters filters = asked_.filters;
    const RowCut cut{floor_key(filters, keys.largest), filters.vocab};
    if (threadIdx.x == 0) {
      end_.keys = keys;
      end_.floor = filters.top_p_on() && !filters.top_k_on() ? from_order_key(cut.low) : INFINITY;
    }
    if (end_with_list(filters, index, keys, cut)) return;
    filter_by_passes<kForm, kFromProbs>(task_, place_.blocks_log2, place_.dynamic, place_.order,
                                        cut);
    draw_by_sums<kForm, kFromProbs>(task_, place_.dynamic, end_.cut);
  }

  /// Writes the keys of the row's tiles, by the block's first `threads` threads.
  __device__ __forceinline__ void write_keys(const RowIndex& index, int threads) const {
    if (!task_.keys.given()) return;
    std::int32_t* keys = task_.keys.data + number_ * task_.keys.row_stride;
#pragma unroll 1
    for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += threads) {
      keys[tile] = index.keys[tile];
    }
  }

  /// Finishes the row if the values that top_k keeps fit into a list, and returns whether they fit.
  /// Also computes the row's mass.
  __device__ __forceinline__ bool end_with_list(const RowFilters& filters, const RowIndex& index,
                                                const TileKeys& keys, const RowCut& floor) {
    const RowWeigher<kFromProbs> weigh(rule_, keys.largest);
    if (filters.by_row_mass) {
      sync_end();  // after the first thread has written
      if (filters.min_p_on()) {
        pass_of_all<kForm, kFromProbs>(task_, place_.blocks_log2, place_.dynamic, place_.order,
                                       {PassKind::sum_and_list, floor, floor.low, floor.low - 1});
      }
      const uint128_t mass = mass_of_sums<kFromProbs>(end_);
      if (threadIdx.x == 0) end_.filters.row_mass = mass;
      sync_end();
    }
    if (!filters.top_k_on()) return false;
    const std::int32_t bound =
        max(floor.low, CandidateBound<kFromProbs>{index, groups_, keys}.of_top_k(
                           end_.search, filters.top_k, kLowest));
    const RowQuads<kForm> quads(task_.rows, task_.allowed, number_, task_.edits);
    list_candidates<kForm, kFromProbs>(end_.list, quads, index, groups_, bound);
    sync_end();
    const CandidateList::Size size = end_.list.size();
    if (size.overflow) return false;
    if (size.total <= kEndThreads) {
      end_short_list(task_, filters, index, weigh, end_, size.total);
    } else {
      end_long_list<kFromProbs>(task_, end_, size.total, bound);
    }
    return true;
  }

  SharedRow place_;
  RowAsked& asked_;  ///< readable after the next barrier of the row's blocks
  const RowsTask& task_;
  std::int64_t number_;
  TileRow<kForm> row_;
  Ring ring_;
  RowEnd& end_;  ///< memory for finishing the row, in place of the ring
  GroupKeys groups_;
  RowBlocks blocks_;
  Way way_ = Way::by_first_block;
  TileRule rule_{};
  bool wants_groups_ = false;
  bool hints_ = false;
  ProposalMemory::Hint hint_{};
  float above_hint_ = 0;
};

// The kernel's template parameters are not structs, because nvcc does not support those.
template <DType kType, TileAccess kAccess, bool kFromProbs>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, 2)
    filter_tiles_kernel(const __grid_constant__ RowsTask task, int blocks_log2) {
  __shared__ PassOrder order;
  __shared__ RowAsked asked;
  extern __shared__ __align__(16) unsigned char dynamic[];
  FilterTilesRow<RowForm{kType, kAccess}, kFromProbs>({task, blocks_log2, dynamic, &order}, asked)
      .run();
}

}  // namespace fairdraw::cuda
