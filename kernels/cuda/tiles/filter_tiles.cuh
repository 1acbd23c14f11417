// Rows filtered by min_p, top_k and top_p through their tiles, and one token drawn of each.
//
// Contract. Rows of any dtype, stride and alignment, logits or probabilities, with allowed bits;
// parameters per row. Rows may be processed (edit_planes.h). For each row a token, its status, and optionally who survives. Nothing is
// written for other rows, and nothing of a row depends on them.
//
// Algorithm and cost. A cluster of blocks reads the row once and sends its index to the first
// block: the largest value of each tile, of each group of 32 ids for top_k, and sums where top_p is
// measured on the row. The first block ends the row alone: a bound from the index
// (candidate_bound.cuh), the values that reach it (candidate_list.cuh), the cuts and the draw among
// them (short_list_end.cuh, long_list_end.cuh). Where no list can hold the survivors, the row is
// read again, as often as needed, by that block alone (whole_row_end.cuh): correct and bounded, but
// slow. Those are flat rows, and some peaked ones, with top_p alone; of top_k k above about 1/80 of
// the vocabulary, rows of ties, more than 256 candidates in an eighth of the vocabulary, and from k
// of a quarter of the tiles on rows far from 0 (300 is), where groups' keys are coarse.
//
// Local memory is what to avoid here: a stack frame of 736 bytes a thread, from parameters handed
// on by reference, took 6 us at one row and 30 us at 256. Then control flow that is the same for a
// whole warp, loads that do not wait for one another, and stores without branches.
//
// Measured on an H200, V = 128256, float32, cold L2, graph replay, median of 30, microseconds, the
// slower of peaked and flat logits, the tiles read through registers in place of the ring, 512
// threads:
//   rows (blocks of each)     1 (16)   8 (8)   64 (2)   256 (1)
//   floor                      4.2      5.7     14.0     37.6
//   top_k 50                  12.4     14.2     24.4     49.3
//   top_k 50, top_p 0.9       13.4     15.1     25.4     50.4
//   top_k 200                 19.5     21.9     32.9     58.2
//   top_k 1000                29.1     33.1     45.2     74.7
//   top_p 0.9, peaked         17.5     2880: at least one row takes the whole row's end
//   top_p 0.9, flat           2800: that end
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
#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/short_list_end.cuh"

namespace fairdraw::cuda {

/// One block's part of a row, and in the first block the row's end.
template <DType kType, bool kFromProbs>
class FilterTilesRow {
  static constexpr std::int32_t kLowest = kFromProbs ? 1 : kEmptyTileKey + 1;
  using Pass = TilePass<kType, kFromProbs>;
  using Ring = TileRing<kType>;
  using Search = BracketSearch<kType, kFromProbs, FilterTilesRow>;
  friend Search;

 public:
  /// Bytes of dynamic shared memory: the ring or the row's end, the groups' keys, the index.
  __host__ __device__ static constexpr int end_bytes(int threads) {
    const int ring = Ring::kLaneBytes * threads;
    const int end = static_cast<int>(sizeof(RowEnd));
    return ring > end ? ring : end;
  }
  __host__ static constexpr int bytes(int threads, std::int64_t tiles) {
    return end_bytes(threads) + GroupKeys::bytes(tiles) + index_bytes(tiles);
  }

  __device__ __forceinline__ FilterTilesRow(const RowsTask& task, int blocks_log2,
                                            PassOrder& order, unsigned char* dynamic)
      : task_(task),
        number_(blockIdx.x >> static_cast<unsigned>(blocks_log2)),
        row_(task.rows, task.allowed, number_, kFromProbs, task.edits),
        ring_(dynamic),
        end_(*reinterpret_cast<RowEnd*>(dynamic)),
        order_(order),
        groups_(dynamic + end_bytes(threads_of_block()), row_.tiles()),
        blocks_(blocks_log2, row_.tiles(),
                dynamic + end_bytes(threads_of_block()) + GroupKeys::bytes(row_.tiles())) {}

  __device__ __forceinline__ void run() {
    RowParameters parameters;
    parameters.temperature = kFromProbs ? 1.0F : task_.temperature.at(number_);
    parameters.top_k = task_.top_k.at(number_);
    parameters.top_p = task_.top_p.at(number_);
    parameters.min_p = task_.min_p.at(number_);
    RowStatus status = check(parameters);
    if (task_.active.given() && task_.active.data[number_] == 0) status = RowStatus::inactive;
    if (status != RowStatus::ok) {
      if (blocks_.is_first() && threadIdx.x == 0) write_failure(task_, number_, status);
      return;
    }
    const bool greedy =
        is_greedy(parameters) && !(task_.top_k_1_keeps_ties && parameters.top_k == 1);
    RowFilters filters{};
    filters.vocab = row_.vocab();
    filters.top_k =
        top_k_is_on(parameters.top_k, row_.vocab()) && !greedy ? parameters.top_k : 0;
    filters.top_p = greedy ? 1.0F : parameters.top_p;
    filters.lowest_id = task_.tie_rule == TieRule::lowest_id;
    filters.min_p = greedy ? 0.0F : parameters.min_p;
    const bool filtered = filters.top_k_on() || filters.top_p_on() || filters.min_p_on();
    // Without min_p the index has the row's mass; what min_p keeps is weighed by a pass.
    filters.by_row_mass =
        filters.top_p_on() && (!filters.top_k_on() || task_.filter_order == FilterOrder::joint);
    rule_ = {greedy || kFromProbs ? 1.0F : logit_scale(parameters.temperature),
             !greedy && !filters.min_p_on() && (!filtered || filters.by_row_mass)};
    // For lists: of top_k, and of top_p alone.
    const bool wants_groups =
        filters.top_k_on() || (filters.top_p_on() && !filters.min_p_on());
    blocks_.cluster().announce();
    std::uint64_t word = 0;  // the first thread's
    const auto prepare = [&] {
      if (blocks_.is_first() && threadIdx.x == 0 && !greedy) word = random_word_of_row(task_, number_);
      blocks_.cluster().await_all();
    };
    if (row_.has_vectors()) {
      visit_by_vectors(row_, ring_, blocks_.steps(), AllTiles{}, prepare,
                       [&](int tile, const RawTile& raw) {
                         index<TileAccess::vectors>(wants_groups, tile, raw);
                       });
    } else {
      visit_by_values(row_, blocks_.steps(), AllTiles{}, prepare,
                      [&](int tile, const RawTile& raw) {
                        index<TileAccess::values>(wants_groups, tile, raw);
                      });
    }
    blocks_.cluster().arrive();
    if (!filtered && !blocks_.is_first()) return;
    blocks_.cluster().wait();
    if (!blocks_.is_first() || threadIdx.x >= kEndThreads) {
      if (filtered) take_part();
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
      end_.bracket_capacity = static_cast<unsigned>(
          (end_bytes(threads_of_block()) - static_cast<int>(offsetof(RowEnd, list))) /
          static_cast<int>(sizeof(BracketList::Entry)));
    }
    end(filters, greedy);
    if (filtered) give({PassKind::row_has_ended, {}, 0, 0});
  }

 private:
  __device__ static int threads_of_block() { return static_cast<int>(blockDim.x); }

  /// Of a tile that this warp has read, to the first block.
  template <TileAccess kAccess>
  __device__ __forceinline__ void index(bool wants_groups, int tile, const RawTile& raw) const {
    float x[kLaneValues];
    const std::int32_t key = Pass::template largest<kAccess>(row_, raw, x);
    if (wants_groups) groups_.template send<kType, kAccess, kFromProbs>(blocks_.cluster(), tile, x);
    blocks_.send_key(tile, key);
    if (rule_.wants_sums) blocks_.send_sum(tile, Pass::sum(x, key, rule_));
  }

  // --- Passes of all blocks ----------------------------------------------------------------------

  /// The threads that do not end the row.
  __device__ void take_part() const {
#pragma unroll 1
    while (true) {
      blocks_.cluster().sync();
      if (order_.kind == PassKind::row_has_ended) return;
      run_pass();
      blocks_.cluster().sync();
    }
  }

  /// By the threads of the end: tells all blocks what to do next.
  __device__ void give(const PassOrder& order) const {
    sync_end();  // the counts of the pass before have been read
    if (static_cast<int>(threadIdx.x) < blocks_.cluster().blocks) {
      *blocks_.cluster().at(&order_, static_cast<int>(threadIdx.x)) = order;
    }
    if (threadIdx.x == 0) end_.list_size = {0, 0};
    blocks_.cluster().sync();
  }

  __device__ __noinline__ void pass(const PassOrder& order) const {
    give(order);
    run_pass();
    blocks_.cluster().sync();
  }

  __device__ __noinline__ void run_pass() const {
    const unsigned capacity = static_cast<unsigned>(
        (end_bytes(threads_of_block()) - static_cast<int>(offsetof(RowEnd, list))) /
        static_cast<int>(sizeof(BracketList::Entry)));
    BracketPass<kType, kFromProbs>(row_, blocks_, order_, end_.list_size, end_.bracket_entries(),
                                   capacity, rule_.scale)
        .run();
  }

  // --- The end, by kEndThreads threads of the first block ----------------------------------------

  __device__ __forceinline__ void end(const RowFilters& filters, bool greedy) {
    const RowIndex index = blocks_.index();
    const TileKeys keys = find_tile_keys(index);
    const RowStatus status = status_of_key(keys.largest, task_.edits.fault_of(number_));
    if (status != RowStatus::ok) {
      if (threadIdx.x == 0) write_failure(task_, number_, status);
      return;
    }
    write_keys(index);
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
      cut = filter_by_passes(cut);
    }
    draw(index, keys, cut);
  }

  __device__ __forceinline__ void write_keys(const RowIndex& index) const {
    if (!task_.keys.given()) return;
    std::int32_t* keys = task_.keys.data + number_ * task_.keys.row_stride;
    for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += kEndThreads) {
      keys[tile] = index.keys[tile];
    }
  }

  /// True where a list held the survivors, and the row has been written.
  __device__ __forceinline__ bool end_with_list(const RowFilters& filters, const RowIndex& index,
                                                const TileKeys& keys,
                                                const RowQuads<kType>& quads,
                                                const RowCut& floor) {
    const RowWeigher<kFromProbs> weigh(rule_, keys.largest);
    if (filters.by_row_mass) find_row_mass(filters.min_p_on(), floor);
    std::int32_t bound = floor.low;
    if (!has_list(filters, index, keys, weigh, bound)) return false;
    list_candidates<kType, kFromProbs>(end_.list, quads, index, groups_, bound);
    sync_end();
    const CandidateList::Size size = end_.list.size();
    if (size.overflow) return false;
    return size.total <= kEndThreads
               ? end_short_list(task_, filters, index, weigh, end_, size.total)
               : end_long_list<kFromProbs>(task_, end_, size.total, bound);
  }

  /// True where a list of what reaches `bound`, which is raised, may hold the survivors.
  __device__ __forceinline__ bool has_list(const RowFilters& filters, const RowIndex& index,
                                           const TileKeys& keys,
                                           const RowWeigher<kFromProbs>& weigh,
                                           std::int32_t& bound) {
    const CandidateBound<kFromProbs> bounds{index, groups_, keys};
    if (filters.top_k_on()) {
      bound = max(bound, bounds.of_top_k(end_.search, filters.top_k, kLowest));
      return true;
    }
    if (filters.min_p_on()) return false;
    const uint128_t target = nucleus_target(filters.top_p, end_.filters.row_mass);
    return bounds.of_top_p(end_.selection, target, weigh, bound);
  }

  /// What top_p is measured on, to end_.filters.
  __device__ __noinline__ void find_row_mass(bool min_p_on, RowCut floor) {
    sync_end();  // what the first thread has written
    Search search(end_, row_, *this);
    const uint128_t mass = min_p_on ? search.sum_kept(floor) : search.mass_of_sums();
    if (threadIdx.x == 0) end_.filters.row_mass = mass;
    sync_end();
  }

  /// The cut by passes of all blocks; the index then has the sums of what it keeps.
  __device__ __noinline__ RowCut filter_by_passes(RowCut cut) {
    sync_end();  // what the first thread has written; what a list's end has read
    Search search(end_, row_, *this);
    const RowFilters filters = end_.filters;
    if (filters.top_k_on()) {
      cut = search.top_k(cut, filters.top_k);
    } else if (filters.min_p_on() && !filters.top_p_on()) {
      search.sum_kept(cut);
    }
    if (!filters.top_p_on()) return cut;
    sync_end();
    const uint128_t kept = search.mass_of_sums();
    const uint128_t target =
        nucleus_target(filters.top_p, filters.by_row_mass ? filters.row_mass : kept);
    sync_end();
    return kept < target ? cut : search.top_p(cut, target, kept);
  }

  /// By sums of what the cut keeps.
  __device__ __forceinline__ void draw(const RowIndex& index, const TileKeys& keys,
                                       const RowCut& cut) {
    const IndexedRow<TileRow<kType>, kFromProbs, CutRule> row(
        row_, index, rule_, {from_order_key(cut.low), cut.tie_end}, keys.largest);
    row.sum_groups(end_.groups, kEndWarps);
    sync_end();
    if (warp_of_thread() != 0) return;
    const DrawnToken drawn = row.draw(end_.groups, end_.filters.word);
    if (lane_of_thread() == 0) {
      write_drawn(task_, number_, drawn.token, keys.largest, cut, drawn.total);
    }
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

  const RowsTask& task_;
  std::int64_t number_;
  TileRow<kType> row_;
  Ring ring_;
  RowEnd& end_;  ///< where the ring was
  PassOrder& order_;
  GroupKeys groups_;
  RowBlocks blocks_;
  TileRule rule_{};
};

template <DType kType, bool kFromProbs>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, 2)
    filter_tiles_kernel(const __grid_constant__ RowsTask task, int blocks_log2) {
  __shared__ PassOrder order;
  extern __shared__ __align__(16) unsigned char dynamic[];
  FilterTilesRow<kType, kFromProbs>(task, blocks_log2, order, dynamic).run();
}

}  // namespace fairdraw::cuda
