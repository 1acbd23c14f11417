// Rows of every kind through their tiles: filtered by min_p, top_k and top_p, greedy, or as they
// are; and one token drawn of each.
//
// Contract. Rows of any dtype, stride and alignment, logits or probabilities, with allowed bits;
// parameters per row, which may be in device memory; rows may be processed (edit_planes.h). For
// each row a token, its status, and optionally a record of who survives. Nothing is written for
// other rows, and nothing of a row depends on them.
//
// Algorithm and cost. A cluster of blocks reads the row once and sends its index to the first
// block: the largest value of each tile, of each group of 32 ids for lists, and sums where a draw
// or top_p is measured on them. What comes then is the row's own:
//   no filter     the first block draws from the sums, and reads one tile (tile_draw.cuh)
//   greedy        it reads the first tile with the largest value
//   top_k         also with top_p: a bound from the index (candidate_bound.cuh), the values that
//                 reach it (candidate_list.cuh), the cuts and the draw among them
//                 (short_list_end.cuh, long_list_end.cuh), all by the first block
//   top_p alone   a bracket from a sample and one pass of all blocks over the tiles again
//                 (nucleus_row.cuh)
//   all others    passes of all blocks over the tiles again (bracket_search.cuh): min_p, top_k that
//                 is not small, ties. One pass as a rule, then a draw from the sums of what is
//                 kept.
// A kernel of its own, sample_tiles.cu, has the calls in which no row has top_k or top_p.
//
// Local memory is what to avoid here: a stack frame of 736 bytes a thread, from parameters handed
// on by reference, took 6 us at one row and 30 us at 256. So rare parts are functions of their own
// with their arguments by value or in shared memory. Then control flow that is the same for a whole
// warp, loads that do not wait for one another, and stores without branches.
//
// Measured on an H200, V = 128256, float32, cold L2, graph replay in turns with other kernels,
// median of 30, microseconds, the slower of peaked and flat logits, 512 threads:
//   rows (blocks of each)     1 (16)   8 (8)   64 (2)   256 (1)
//   floor                      5.7      7.1     15.3     41.6
//   no filter                 22.1     22.6     30.8     58.1
//   greedy                    11.1     12.3     21.2     49.6
//   top_k 50                  27.1     25.2     33.2     58.2
//   top_k 50, top_p 0.9       20.5     21.2     29.4     59.5
//   top_k 1000                39.9     39.3     48.4     82.7
//   top_k 5000                63.5     63.7     97.4    174.6
//   min_p 0.05                34.0     36.3     63.2    131.2
//   top_p 0.9, peaked         46.0     44.4     74.0    140.7
//   top_p 0.9, flat           48.3     48.3     80.5    148.6
// Before top_p alone had a way of its own it took 32, 78, 101 and 168 (peaked) and 81, 78, 112 and
// 189 (flat); the other filters took 2 to 3 us less with one row, for this kernel's registers are
// shared by all of them.
//
// Numerics: common/tile_weights.h. Cuts are thresholds on logits. Determinism: integers; neither
// the number of blocks nor their order shows.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#include "common/parameters.h"
#include "cuda/tiles/bracket_search.cuh"
#include "cuda/tiles/candidate_bound.cuh"
#include "cuda/tiles/filter_tiles.h"
#include "cuda/tiles/long_list_end.cuh"
#include "cuda/tiles/min_p_key.cuh"
#include "cuda/tiles/nucleus_row.cuh"
#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/short_list_end.cuh"

namespace fairdraw::cuda {

/// Draws from a row whose index has the sums of what a cut keeps. By the threads of the end.
template <DType kType, bool kFromProbs>
__device__ __noinline__ void draw_by_sums(const RowsTask& task, unsigned char* dynamic,
                                          RowCut cut) {
  RowEnd& end = *reinterpret_cast<RowEnd*>(dynamic);
  sync_end();  // what the first thread has written
  const TileRow<kType> values(task.rows, task.allowed, end.number, kFromProbs, task.edits);
  const IndexedRow<TileRow<kType>, kFromProbs, CutRule> row(
      values, end.index, end.rule, {from_order_key(cut.low), cut.tie_end}, end.keys.largest);
  row.sum_groups(end.groups, kEndWarps);
  sync_end();
  if (warp_of_thread() != 0) return;
  const DrawnToken drawn = row.draw(end.groups, end.filters.word);
  if (lane_of_thread() == 0) {
    write_drawn(task, end.number, drawn.token, end.keys.largest, cut, drawn.total);
  }
}

/// One block's part of a row, and in the first block the row's end.
template <DType kType, bool kFromProbs>
class FilterTilesRow {
  static constexpr std::int32_t kLowest = kFromProbs ? 1 : kEmptyTileKey + 1;
  using Pass = TilePass<kType, kFromProbs>;
  using Ring = TileRing<kType>;

 public:
  /// Bytes of dynamic shared memory.
  __host__ static constexpr int bytes(int threads, std::int64_t tiles) {
    return end_bytes<kType>(threads) + middle_bytes<kType>(threads, tiles) + index_bytes(tiles);
  }

  __device__ __forceinline__ FilterTilesRow(const SharedRow& place)
      : place_(place),
        task_(place.task),
        number_(place.number()),
        row_(task_.rows, task_.allowed, number_, kFromProbs, task_.edits),
        ring_(place.dynamic),
        end_(*place.end()),
        groups_(place.groups<kType>(row_.tiles())),
        blocks_(place.blocks<kType>(row_.tiles())) {}

  __device__ __forceinline__ void run() {
    RowParameters parameters;
    parameters.temperature = kFromProbs ? 1.0F : task_.temperature.at(number_);
    parameters.top_k = task_.top_k.at(number_);
    parameters.top_p = task_.top_p.at(number_);
    parameters.min_p = task_.min_p.at(number_);
    RowStatus status = check(parameters);
    if (task_.active.given() && task_.active.data[number_] == 0) status = RowStatus::inactive;
    if (status != RowStatus::ok) {
      // Whatever comes after this kernel may write where the edits are still being written.
      if (row_.is_processed()) await_edits();
      if (blocks_.is_first() && threadIdx.x == 0) write_failure(task_, number_, status);
      return;
    }
    const bool greedy =
        is_greedy(parameters) && !(task_.top_k_1_keeps_ties && parameters.top_k == 1);
    RowFilters filters{};
    filters.vocab = row_.vocab();
    filters.top_k = top_k_is_on(parameters.top_k, row_.vocab()) && !greedy ? parameters.top_k : 0;
    filters.top_p = greedy ? 1.0F : parameters.top_p;
    filters.lowest_id = task_.tie_rule == TieRule::lowest_id;
    filters.min_p = greedy ? 0.0F : parameters.min_p;
    const bool filtered = filters.top_k_on() || filters.top_p_on() || filters.min_p_on();
    // Without min_p the index has the row's mass; what min_p keeps is weighed by a pass.
    filters.by_row_mass =
        filters.top_p_on() && (!filters.top_k_on() || task_.filter_order == FilterOrder::joint);
    rule_ = {greedy || kFromProbs ? 1.0F : logit_scale(parameters.temperature),
             !greedy && !filters.min_p_on() && (!filtered || filters.by_row_mass)};
    const bool wants_groups = filters.top_k_on();
    by_nucleus_ = filters.top_p_on() && !filters.top_k_on() && !filters.min_p_on();
    blocks_.cluster().announce();
    std::uint64_t word = 0;  // the first thread's
    const auto prepare = [&] {
      if (blocks_.is_first() && threadIdx.x == 0 && !greedy) {
        word = random_word_of_row(task_, number_);
      }
      blocks_.cluster().await_all();
    };
    visit_tiles(row_, ring_, blocks_.steps(), prepare,
                [&]<TileAccess kAccess>(int tile, const RawTile& raw) {
                  index<kAccess>(wants_groups, tile, raw);
                });
    if (by_nucleus_) begin_nucleus<kType, kFromProbs>(task_, place_.blocks_log2, place_.dynamic);
    blocks_.cluster().arrive();
    if (!filtered && !blocks_.is_first()) return;
    blocks_.cluster().wait();
    if (by_nucleus_) {
      const NucleusOutcome outcome =
          end_with_nucleus<kType, kFromProbs>(place_, rule_.scale, filters.top_p, word);
      if (blocks_.is_first() && outcome == NucleusOutcome::drawn) {
        write_keys(blocks_.index(), static_cast<int>(blockDim.x));
        return;
      }
      sums_are_stale_ = outcome == NucleusOutcome::missed;
    }
    if (!blocks_.is_first() || threadIdx.x >= kEndThreads) {
      if (filtered) {
        take_part<kType, kFromProbs>(task_, place_.blocks_log2, place_.dynamic, place_.order,
                                     rule_.scale);
      }
      return;
    }
    if (threadIdx.x == 0) {
      // Read by others after a barrier.
      end_.number = number_;
      end_.filters = filters;
      end_.filters.word = word;
      end_.rule = rule_;
      end_.index = blocks_.index();
      end_.sums = blocks_.sums();
      end_.bracket_capacity = bracket_capacity<kType>();
    }
    end(filters, greedy);
    if (filtered) {
      give_order(blocks_.cluster(), end_, place_.order, {PassKind::row_has_ended, {}, 0, 0});
    }
  }

 private:
  /// Of a tile that this warp has read, to the first block.
  template <TileAccess kAccess>
  __device__ __forceinline__ void index(bool wants_groups, int tile, const RawTile& raw) const {
    float x[kLaneValues];
    const std::int32_t key = Pass::template largest<kAccess>(row_, raw, x);
    if (wants_groups) groups_.template send<kType, kAccess, kFromProbs>(blocks_.cluster(), tile, x);
    const std::uint64_t sum = rule_.wants_sums ? Pass::sum(x, key, rule_) : 0;
    blocks_.send(tile, {key, sum}, by_nucleus_);
  }

  /// By kEndThreads threads of the first block.
  __device__ __forceinline__ void end(const RowFilters& filters, bool greedy) {
    const RowIndex index = blocks_.index();
    const TileKeys keys = find_tile_keys(index);
    const RowStatus status = status_of_key(keys.largest, task_.edits.fault_of(number_));
    if (status != RowStatus::ok) {
      if (threadIdx.x == 0) write_failure(task_, number_, status);
      return;
    }
    write_keys(index, kEndThreads);
    const RowQuads<kType> quads(task_.rows, task_.allowed, number_, task_.edits);
    if (greedy) {
      if (warp_of_thread() == 0) write_greedy(index, quads, keys.largest);
      return;
    }
    if (threadIdx.x == 0) end_.keys = keys;
    RowCut cut{kLowest, filters.vocab};
    if (filters.min_p_on()) {
      cut.low = smallest_key_kept<kFromProbs>(filters.min_p, rule_.scale, kLowest, keys.largest);
    }
    if (filters.top_k_on() || filters.top_p_on()) {
      if (end_with_list(filters, index, keys, quads, cut)) return;
    }
    if (filters.top_k_on() || filters.top_p_on() || filters.min_p_on()) {
      filter_by_passes<kType, kFromProbs>(task_, place_.blocks_log2, place_.dynamic, place_.order,
                                          cut);
      cut = end_.cut;
    }
    draw_by_sums<kType, kFromProbs>(task_, place_.dynamic, cut);
  }

  /// By the block's first `threads` threads.
  __device__ __forceinline__ void write_keys(const RowIndex& index, int threads) const {
    if (!task_.keys.given()) return;
    std::int32_t* keys = task_.keys.data + number_ * task_.keys.row_stride;
    for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += threads) {
      keys[tile] = index.keys[tile];
    }
  }

  /// True where a list held the survivors, and the row has been written.
  __device__ __forceinline__ bool end_with_list(const RowFilters& filters, const RowIndex& index,
                                                const TileKeys& keys, const RowQuads<kType>& quads,
                                                const RowCut& floor) {
    const RowWeigher<kFromProbs> weigh(rule_, keys.largest);
    if (filters.by_row_mass) {
      sync_end();  // what the first thread has written
      if (filters.min_p_on() || sums_are_stale_) {
        pass_of_all<kType, kFromProbs>(task_, place_.blocks_log2, place_.dynamic, place_.order,
                                       {PassKind::sum_and_list, floor, floor.low, floor.low - 1});
      }
      const uint128_t mass = mass_of_sums<kFromProbs>(end_);
      if (threadIdx.x == 0) end_.filters.row_mass = mass;
      sync_end();
    }
    std::int32_t bound = floor.low;
    if (!filters.top_k_on()) return false;
    bound = max(bound, CandidateBound<kFromProbs>{index, groups_, keys}.of_top_k(
                           end_.search, filters.top_k, kLowest));
    list_candidates<kType, kFromProbs>(end_.list, quads, index, groups_, bound);
    sync_end();
    const CandidateList::Size size = end_.list.size();
    if (size.overflow) return false;
    return size.total <= kEndThreads
               ? end_short_list(task_, filters, index, weigh, end_, size.total)
               : end_long_list<kFromProbs>(task_, end_, size.total, bound);
  }

  /// A warp: the lowest id of the largest value.
  __device__ void write_greedy(const RowIndex& index, const RowQuads<kType>& quads,
                               std::int32_t largest) const {
    int tile = 0;
    unsigned has = 0;
    for (; has == 0; tile += kWarp) {
      const int mine = tile + lane_of_thread();
      has = __ballot_sync(kAllLanes, mine < index.tiles && index.keys[mine] == largest);
    }
    tile += __ffs(static_cast<int>(has)) - 1 - kWarp;
    int token = INT_MAX;
    for (int first = lane_of_thread() * kQuad; first < kTileSize; first += kWarp * kQuad) {
      const int id = tile * kTileSize + first;
      float x[kQuad];
      quads.load_any(id, x);
#pragma unroll
      for (int i = 0; i < kQuad; ++i) {
        if (x[i] > -INFINITY && order_key(x[i]) == largest) token = min(token, id + i);
      }
    }
    token = __reduce_min_sync(kAllLanes, token);
    if (lane_of_thread() == 0) fairdraw::cuda::write_greedy(task_, number_, token, largest);
  }

  SharedRow place_;
  const RowsTask& task_;
  std::int64_t number_;
  TileRow<kType> row_;
  Ring ring_;
  RowEnd& end_;  ///< where the ring was
  GroupKeys groups_;
  RowBlocks blocks_;
  TileRule rule_{};
  bool by_nucleus_ = false;
  bool sums_are_stale_ = false;
};

template <DType kType, bool kFromProbs>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, 2)
    filter_tiles_kernel(const __grid_constant__ RowsTask task, int blocks_log2) {
  __shared__ PassOrder order;
  extern __shared__ __align__(16) unsigned char dynamic[];
  FilterTilesRow<kType, kFromProbs>({task, blocks_log2, dynamic, &order}).run();
}

}  // namespace fairdraw::cuda
