// Rows filtered by min_p, top_k and top_p through their tiles, and one token drawn of each.
//
// Contract. Rows of any dtype, stride and alignment, logits or probabilities, with allowed bits;
// parameters per row. For each row a token, its status, and optionally who survives. Nothing is
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
#include <cstdint>

#include "common/parameters.h"
#include "common/philox.h"
#include "cuda/tiles/candidate_bound.cuh"
#include "cuda/tiles/filter_tiles.h"
#include "cuda/tiles/long_list_end.cuh"
#include "cuda/tiles/min_p_key.cuh"
#include "cuda/tiles/short_list_end.cuh"
#include "cuda/tiles/whole_row_end.cuh"

namespace fairdraw::cuda {

/// One block's part of a row, and in the first block the row's end.
template <DType kType, bool kFromProbs>
class FilterTilesRow {
  static constexpr std::int32_t kLowest = kFromProbs ? 1 : kEmptyTileKey + 1;
  using Pass = TilePass<kType, kFromProbs>;
  using Ring = TileRing<kType>;
  static_assert(sizeof(RowEnd) <= std::size_t{Ring::kLaneBytes} * kEndThreads);

 public:
  /// Bytes of dynamic shared memory besides the ring: the groups' keys and the index.
  __host__ static constexpr int row_bytes(std::int64_t tiles) {
    return GroupKeys::bytes(tiles) + index_bytes(tiles);
  }

  __device__ __forceinline__ FilterTilesRow(const RowsTask& task, int blocks_log2,
                                            unsigned char* dynamic)
      : task_(task),
        number_(blockIdx.x >> static_cast<unsigned>(blocks_log2)),
        row_(task.rows, task.allowed, number_, kFromProbs),
        ring_(dynamic),
        end_(*reinterpret_cast<RowEnd*>(dynamic)),
        groups_(dynamic + Ring::kLaneBytes * blockDim.x, row_.tiles()),
        blocks_(blocks_log2, row_.tiles(),
                dynamic + Ring::kLaneBytes * blockDim.x + GroupKeys::bytes(row_.tiles())) {}

  __device__ __forceinline__ void run() {
    RowParameters parameters;
    parameters.temperature = kFromProbs ? 1.0F : task_.temperature.at(number_);
    parameters.top_k = task_.top_k.at(number_);
    parameters.top_p = task_.top_p.at(number_);
    parameters.min_p = task_.min_p.at(number_);
    RowStatus status = check(parameters);
    if (task_.active.given() && task_.active.data[number_] == 0) status = RowStatus::inactive;
    if (status != RowStatus::ok) {
      if (blocks_.is_first() && threadIdx.x == 0) write_failure(status);
      return;
    }
    const bool greedy = is_greedy(parameters);
    RowFilters filters{};
    filters.vocab = row_.vocab();
    filters.top_k = top_k_is_on(parameters.top_k, row_.vocab()) ? parameters.top_k : 0;
    filters.top_p = parameters.top_p;
    filters.lowest_id = task_.tie_rule == TieRule::lowest_id;
    filters.min_p = parameters.min_p;
    // Without min_p the index has the row's mass; what min_p keeps is weighed by the ends.
    filters.by_row_mass =
        filters.top_p_on() &&
        (filters.top_k_on() ? task_.filter_order == FilterOrder::joint : !filters.min_p_on());
    const TileRule rule{greedy || kFromProbs ? 1.0F : logit_scale(parameters.temperature),
                        filters.by_row_mass && !filters.min_p_on() && !greedy};
    blocks_.cluster().announce();
    std::uint64_t word = 0;  // the first thread's
    const auto prepare = [&] {
      if (blocks_.is_first() && threadIdx.x == 0 && !greedy) word = random_word_of_row();
      blocks_.cluster().await_all();
    };
    if (row_.has_vectors()) {
      visit_by_vectors(
          row_, ring_, blocks_.steps(), AllTiles{}, prepare,
          [&](int tile, const RawTile& raw) { index<TileAccess::vectors>(rule, tile, raw); });
    } else {
      visit_by_values(
          row_, blocks_.steps(), AllTiles{}, prepare,
          [&](int tile, const RawTile& raw) { index<TileAccess::values>(rule, tile, raw); });
    }
    blocks_.cluster().sync();
    if (!blocks_.is_first() || threadIdx.x >= kEndThreads) return;
    if (threadIdx.x == 0) {
      // Read by others after a barrier: where a list has been written, or a mass summed.
      end_.number = number_;
      end_.filters = filters;
      end_.filters.word = word;
      end_.rule = rule;
      end_.index = blocks_.index();
    }
    end(filters, rule, greedy);
  }

 private:
  /// Of a tile that this warp has read, to the first block.
  template <TileAccess kAccess>
  __device__ __forceinline__ void index(const TileRule& rule, int tile, const RawTile& raw) const {
    float x[kLaneValues];
    const std::int32_t key = Pass::template largest<kAccess>(row_, raw, x);
    groups_.template send<kType, kAccess, kFromProbs>(blocks_.cluster(), tile, x);
    blocks_.send(tile, {key, rule.wants_sums ? Pass::sum(x, key, rule) : 0});
  }

  /// The first block, kEndThreads threads.
  __device__ __forceinline__ void end(const RowFilters& filters, const TileRule& rule,
                                      bool greedy) {
    const RowIndex index = blocks_.index();
    const TileKeys keys = find_tile_keys(index);
    const RowStatus status = status_of_key(keys.largest);
    if (status != RowStatus::ok) {
      if (threadIdx.x == 0) write_failure(status);
      return;
    }
    const RowQuads<kType> quads(task_.rows, task_.allowed, number_);
    if (greedy) {
      if (warp_of_thread() == 0) write_greedy(index, quads, keys.largest);
      return;
    }
    if (threadIdx.x == 0) end_.keys = keys;
    const RowWeigher<kFromProbs> weigh(rule, keys.largest);
    std::int32_t bound = kLowest;
    if (filters.min_p_on()) {
      bound = smallest_key_kept<kFromProbs>(filters.min_p, rule.scale, kLowest, keys.largest);
      if (filters.by_row_mass) weigh_whole_row<kType, kFromProbs>(task_, end_, bound);
    } else if (filters.by_row_mass) {
      find_row_mass(end_, index, weigh);
    }
    const std::int32_t lowest = bound;
    if (has_list(filters, index, keys, weigh, bound)) {
      list_candidates<kType, kFromProbs>(end_.list, quads, index, groups_, bound);
      sync_end();
      const CandidateList::Size size = end_.list.size();
      if (!size.overflow) {
        const bool done = size.total <= kEndThreads
                              ? end_short_list(task_, filters, index, weigh, end_, size.total)
                              : end_long_list<kFromProbs>(task_, end_, size.total, bound);
        if (done) return;
      }
    }
    end_whole_row<kType, kFromProbs>(task_, end_, filters.top_k_on() ? bound : lowest);
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
    if (filters.min_p_on()) return true;
    if (!filters.top_p_on()) return false;
    const uint128_t target = nucleus_target(filters.top_p, end_.filters.row_mass);
    return bounds.of_top_p(end_.selection, target, weigh, bound);
  }

  /// Two barriers.
  __device__ __noinline__ static void find_row_mass(RowEnd& end, RowIndex index,
                                                    RowWeigher<kFromProbs> weigh) {
    uint128_t mine = 0;
    for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += kEndThreads) {
      if (index.sums[tile] == 0) continue;
      mine += row_weight(index.sums[tile], weigh.shift_of(index.keys[tile]));
    }
    const uint128_t mass = BlockMasses(end.masses).sum(mine);
    if (threadIdx.x == 0) end.filters.row_mass = mass;
    sync_end();
  }

  __device__ std::uint64_t random_word_of_row() const {
    if (task_.words != nullptr) return task_.words[number_];
    std::uint32_t index = task_.seed.is_array() ? 0 : static_cast<std::uint32_t>(number_);
    if (task_.index != nullptr) index = task_.index[number_];
    return random_word(task_.seed.at(number_), task_.offset.at(number_), task_.purpose, index);
  }

  __device__ void write_failure(RowStatus status) const {
    if (task_.tokens != nullptr) task_.tokens[number_] = -1;
    if (task_.statuses != nullptr) task_.statuses[number_] = status;
    if (task_.records != nullptr) task_.records[number_] = {status, -1, 0, 0, 0, 0, 0, 0, 0};
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
    if (lane_of_thread() != 0) return;
    if (task_.tokens != nullptr) task_.tokens[number_] = token;
    if (task_.statuses != nullptr) task_.statuses[number_] = RowStatus::ok;
    if (task_.records != nullptr) {
      const float max = from_order_key(largest);
      task_.records[number_] = {RowStatus::ok, token, max, max, token + 1, 0, 0, 0, 0};
    }
  }

  const RowsTask& task_;
  std::int64_t number_;
  TileRow<kType> row_;
  Ring ring_;
  RowEnd& end_;  ///< where the ring was
  GroupKeys groups_;
  RowBlocks blocks_;
};

template <DType kType, bool kFromProbs>
__global__ void __launch_bounds__(kMaxThreadsOfBlock, 2)
    filter_tiles_kernel(const __grid_constant__ RowsTask task, int blocks_log2) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  FilterTilesRow<kType, kFromProbs>(task, blocks_log2, dynamic).run();
}

}  // namespace fairdraw::cuda
