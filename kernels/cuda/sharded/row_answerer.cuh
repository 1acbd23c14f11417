// A shard's answers to what a row asks (sharded/exchange.h).
//
// Contract. For each row that asks, of this shard's whole tiles and bit for bit the CPU's: values
// of a window with the exact measure of the shard's values from each on; where the nth value of a
// key is, and what those after it weigh; tokens at places among the survivors. Places of rows that
// ask something else, or nothing, are left as they are.
//
// Algorithm and cost. A block of 256 threads a row; rows that do not ask end at once. A window is
// three passes over the tiles that reach it, a warp a tile: measures and how many values each tile
// has in the window; a sample of 1024 of them at most, in the order of ids, which is sorted, and
// every share of whose distinct values ends in a point; and the bins between points. A token is a
// prefix sum over tiles, from the index where all tokens survive, else after a pass over the tiles
// that reach the threshold, and one tile again.
//
// Randomness: none, places are given. Numerics: common/tile_weights.h. Sums of 128 bits in shared
// memory by limbs of 32. Determinism: integers; samples are taken by number, not by order of
// threads.
#pragma once

#include <climits>
#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/shared_sums.cuh"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/block_masses.cuh"
#include "cuda/tiles/filtered_row.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_draw.cuh"

namespace fairdraw::cuda {

/// Windows of up to so many values are sorted; of others a sample of at most this size is. The
/// same number as on the CPU, because points are compared.
inline constexpr int kSorted = 1024;

/// A sum of 128 bits to which threads add, 2^20 times at most.
struct LimbSum {
  std::uint64_t limb[4];

  __device__ void add(uint128_t value) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto part = static_cast<std::uint32_t>(value >> (32 * i));
      if (part != 0) add_shared(&limb[i], part);
    }
  }
  __device__ uint128_t sum() const {
    uint128_t total = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) total += static_cast<uint128_t>(limb[i]) << (32 * i);
    return total;
  }
};

/// At the beginning of dynamic shared memory; a number and a sum for each tile follow.
struct AnswerMemory {
  BlockMasses::Memory masses;
  BlockScratch<std::int32_t> numbers;
  std::int32_t window[kSorted];
  std::int32_t distinct[kSorted];
  std::int32_t point[sharded::kPoints];
  LimbSum mass[sharded::kPoints + 1];
  std::uint32_t count[sharded::kPoints + 1];
  std::int32_t named;
  int drawn_tile;
  std::uint64_t drawn_rest;
};
constexpr int answer_tiles_at() { return (static_cast<int>(sizeof(AnswerMemory)) + 15) / 16 * 16; }

/// Rarely used, so that its code is elsewhere.
template <bool kFromProbs>
__device__ __noinline__ std::uint64_t weigh_slowly(TileWeights<kFromProbs> rule, float x) {
  return rule.weigh_slowly(x);
}

/// Bytes of dynamic shared memory of an answer.
inline int answer_bytes(const ShardedTask& task) {
  return answer_tiles_at() + index_bytes(task.tiles());
}

template <bool kFromProbs>
class RowAnswerer {
 public:
  __device__ RowAnswerer(const ShardedTask& task, ShardedExchange exchange, std::int64_t number,
                         unsigned char* dynamic)
      : task_(task),
        number_(number),
        state_(task.states[number]),
        tiles_(task.tiles()),
        part_(task.mine(exchange, number)),
        shared_(*reinterpret_cast<AnswerMemory*>(dynamic)),
        sums_(reinterpret_cast<std::uint64_t*>(dynamic + answer_tiles_at())),
        numbers_(reinterpret_cast<std::int32_t*>(sums_ + tiles_)),
        keys_(task.keys.data + number * task.keys.row_stride),
        row_(FilteredRow::whole(task.whole, number, kFromProbs)),
        rule_{state_.scale, true} {
    if (task.whole_allowed.given()) {
      row_.allowed = task.whole_allowed.data + number * task.whole_allowed.row_stride;
    }
  }

  __device__ void run(RowAsks asks) {
    if (asks == RowAsks::tokens) {
      answer_tokens();
    } else if (asks == RowAsks::threshold) {
      answer_threshold();
    } else if (asks == RowAsks::tie) {
      answer_tie();
    }
  }

  /// The tokens that this shard is asked for, zeros in place of all others.
  __device__ void answer_tokens() {
    const RowOutputs outputs(task_, number_);
    const auto asked = [&](int t) -> const ShardedToken& { return task_.drawn[outputs.at(t)]; };
    bool any = false;
#pragma unroll 1
    for (int t = 0; t < outputs.tokens(); ++t) {
      any = any || asked(t).shard == task_.shard;
      if (thread() == t % kEndThreads) *answer_at(outputs.at(t)) = {0, 0, 0};
    }
    __syncthreads();
    if (!any || tiles_ == 0) return;
    sum_tiles();
    const int share = (tiles_ + kEndThreads - 1) / kEndThreads;
    const int begin = ::min(thread() * share, tiles_);
    const int end = ::min(begin + share, tiles_);
    uint128_t mine = 0;
#pragma unroll 1
    for (int tile = begin; tile < end; ++tile) mine += weight_of_tile(tile);
    const uint128_t before = BlockMasses(shared_.masses).prefix(mine).before;
#pragma unroll 1
    for (int t = 0; t < outputs.tokens(); ++t) {
      if (asked(t).shard != task_.shard) continue;
      __syncthreads();  // the tile before has been read
      if (thread() == 0) shared_.drawn_tile = -1;
      __syncthreads();
      const uint128_t place = asked(t).place.value();
      if (before <= place && place - before < mine) {
        uint128_t rest = place - before;
        int tile = begin;
#pragma unroll 1
        for (; tile + 1 < end; ++tile) {
          const uint128_t weight = weight_of_tile(tile);
          if (rest < weight) break;
          rest -= weight;
        }
        shared_.drawn_tile = tile;
        shared_.drawn_rest = static_cast<std::uint64_t>(rest >> shift_of(keys_[tile]));
      }
      __syncthreads();
      if (warp_of_thread() == 0 && shared_.drawn_tile >= 0) draw(outputs.at(t));
    }
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  __device__ int shift_of(std::int32_t tile_key) const {
    const float largest = from_order_key(tile_key);
    if constexpr (kFromProbs) {
      return row_shift(state_.octave, octaves_of_probability(largest).whole);
    }
    return row_shift(state_.octave, octaves_of(largest, rule_.scale).whole);
  }
  __device__ std::uint64_t weight_in(std::int32_t tile_key, float x) const {
    const TileWeights<kFromProbs> weights(from_order_key(tile_key), rule_);
    return weights.are_quick() ? weights.weigh(x) : weights.weigh_slowly(x);
  }

  /// Calls visit(tile, its key, x) for tiles that reach a key, a warp each: lane l has values
  /// 32 i + l. Others have the number 0.
  template <class Visit>
  __device__ void visit_from(std::int32_t low_key, const Visit& visit) {
    for (int tile = warp_of_thread(); tile < tiles_; tile += kEndWarps) {
      const std::int32_t key = keys_[tile];
      if (key == kEmptyTileKey || key < low_key) continue;
      float x[kLaneValues];
      row_.read(std::int64_t{tile} * kTileSize + lane_of_thread(), kWarp, x);
      visit(tile, key, x);
    }
  }

  __device__ void clear(std::size_t bytes) {
#pragma unroll 1
    for (std::size_t at = 4 * threadIdx.x; at < bytes; at += 4 * kEndThreads)
      word_of(part_, at) = 0;
  }
  __device__ void clear_numbers() {
    for (int tile = thread(); tile < tiles_; tile += kEndThreads) numbers_[tile] = 0;
  }
  /// numbers_ of tiles become sums over the tiles before; the sum of all.
  __device__ int sum_numbers() {
    __syncthreads();
    const int share = (tiles_ + kEndThreads - 1) / kEndThreads;
    const int begin = ::min(thread() * share, tiles_);
    const int end = ::min(begin + share, tiles_);
    int mine = 0;
    for (int tile = begin; tile < end; ++tile) mine += numbers_[tile];
    const BlockMasses::Prefix prefix =
        BlockMasses(shared_.masses).prefix(static_cast<uint128_t>(static_cast<unsigned>(mine)));
    auto before = static_cast<int>(prefix.before);
    for (int tile = begin; tile < end; ++tile) {
      const int of_tile = numbers_[tile];
      numbers_[tile] = before;
      before += of_tile;
    }
    __syncthreads();
    return static_cast<int>(prefix.total);
  }
  /// Lanes before this one.
  __device__ static unsigned before_lane() {
    return (1U << static_cast<unsigned>(lane_of_thread())) - 1U;
  }

  // --- Windows

  __device__ void answer_threshold() {
    const std::int32_t low = state_.low_key;
    const std::int32_t high = state_.high_key;
    clear(sizeof(sharded::ThresholdAnswer));
    clear_numbers();
    for (int i = thread(); i <= sharded::kPoints; i += kEndThreads) {
      shared_.mass[i] = {};
      shared_.count[i] = 0;
    }
    if (thread() == 0) shared_.named = 0;
    __syncthreads();

    std::int32_t at_least = 0;
    std::int32_t above = 0;
    uint128_t mass_at_least = 0;
    uint128_t mass_above = 0;
    visit_from(low, [&](int tile, std::int32_t tile_key, const float(&x)[kLaneValues]) {
      const int shift = shift_of(tile_key);
      std::uint64_t of_tile = 0;
      std::uint64_t of_tile_above = 0;
      int in_window = 0;
      for (const float value : x) {
        const std::int32_t key = order_key(value);
        if (key < low || key == kEmptyTileKey) continue;
        const std::uint64_t weight = weight_in(tile_key, value);
        ++at_least;
        of_tile += weight;
        if (key > high) {
          ++above;
          of_tile_above += weight;
        } else if (key > low) {
          ++in_window;
        }
      }
      mass_at_least += row_weight(of_tile, shift);
      mass_above += row_weight(of_tile_above, shift);
      in_window = __reduce_add_sync(kAllLanes, in_window);
      if (lane_of_thread() == 0) numbers_[tile] = in_window;
    });
    at_least = reduce_block(at_least, shared_.numbers, Add{});
    above = reduce_block(above, shared_.numbers, Add{});
    BlockMasses masses(shared_.masses);
    mass_at_least = masses.sum(mass_at_least);
    mass_above = masses.sum(mass_above);
    __syncthreads();  // the sums have been read
    const int values = sum_numbers();
    const int points = choose_points(low, high, values);
    if (values > 0) fill_bins(low, high, points);
    __syncthreads();
    if (thread() != 0) return;
    auto& answer = *reinterpret_cast<sharded::ThresholdAnswer*>(part_);
    answer.points = static_cast<std::uint32_t>(points);
    answer.complete = shared_.named == values ? 1 : 0;
    answer.above.count = static_cast<std::uint64_t>(above);
    answer.above.mass = mass_above;
    answer.at_least.count = static_cast<std::uint64_t>(at_least);
    answer.at_least.mass = mass_at_least;
    auto count = static_cast<std::uint32_t>(above);
    for (int i = 0; i < points; ++i) {
      count += shared_.count[i];
      mass_above += shared_.mass[i].sum();
      answer.point[i].key = shared_.point[i];
      answer.point[i].count = count;
      answer.point[i].mass = mass_above;
    }
  }

  /// Each ends a share of the distinct values of the window, or of a sample of them.
  __device__ int choose_points(std::int32_t low, std::int32_t high, int values) {
    if (values == 0) return 0;
    const int step = values > kSorted ? values / kSorted + 1 : 1;
    visit_from(low, [&](int tile, std::int32_t, const float(&x)[kLaneValues]) {
      int number = numbers_[tile];
      for (const float value : x) {
        const std::int32_t key = order_key(value);
        const bool is_in = key > low && key <= high;
        const unsigned in = __ballot_sync(kAllLanes, is_in);
        const int mine = number + __popc(in & before_lane());
        if (is_in && mine % step == 0) shared_.window[mine / step] = key;
        number += __popc(in);
      }
    });
    const int kept = (values + step - 1) / step;
    int size = 1;
    while (size < kept) size *= 2;
    for (int i = kept + thread(); i < size; i += kEndThreads) shared_.window[i] = INT_MIN;
    __syncthreads();
    sort(size);
    const int distinct = find_distinct(kept);
    const int points = ::min(distinct, sharded::kPoints);
    for (int i = thread(); i < points; i += kEndThreads) {
      shared_.point[i] = shared_.distinct[(i + 1) * distinct / points - 1];
    }
    __syncthreads();
    return points;
  }

  /// Sorts the window's first `size` keys, a power of two, largest first: a bitonic network.
  __device__ void sort(int size) {
    for (int run = 2; run <= size; run *= 2) {
      for (int distance = run / 2; distance > 0; distance /= 2) {
        for (int i = thread(); i < size / 2; i += kEndThreads) {
          const int first = 2 * i - (i & (distance - 1));
          const int second = first + distance;
          const bool falls = (first & run) == 0;
          const std::int32_t a = shared_.window[first];
          const std::int32_t b = shared_.window[second];
          if (falls ? a < b : a > b) {
            shared_.window[first] = b;
            shared_.window[second] = a;
          }
        }
        __syncthreads();
      }
    }
  }

  /// Of the first n keys, sorted.
  __device__ int find_distinct(int n) {
    const auto is_first = [this](int i) {
      return i == 0 || shared_.window[i] != shared_.window[i - 1];
    };
    const int share = (n + kEndThreads - 1) / kEndThreads;
    const int begin = ::min(thread() * share, n);
    const int end = ::min(begin + share, n);
    unsigned mine = 0;
    for (int i = begin; i < end; ++i) mine += is_first(i) ? 1U : 0U;
    const BlockMasses::Prefix prefix = BlockMasses(shared_.masses).prefix(mine);
    auto place = static_cast<int>(prefix.before);
    for (int i = begin; i < end; ++i) {
      if (is_first(i)) shared_.distinct[place++] = shared_.window[i];
    }
    __syncthreads();
    return static_cast<int>(prefix.total);
  }

  /// Each value counts for the first point that it reaches.
  __device__ void fill_bins(std::int32_t low, std::int32_t high, int points) {
    visit_from(low, [&](int, std::int32_t tile_key, const float(&x)[kLaneValues]) {
      const int shift = shift_of(tile_key);
      for (const float value : x) {
        const std::int32_t key = order_key(value);
        if (key <= low || key > high) continue;
        int begin = 0;
        int end = points;
        while (begin < end) {
          const int middle = (begin + end) / 2;
          if (shared_.point[middle] > key) {
            begin = middle + 1;
          } else {
            end = middle;
          }
        }
        if (begin < points && shared_.point[begin] == key) atomicAdd(&shared_.named, 1);
        atomicAdd(&shared_.count[begin], 1U);
        shared_.mass[begin].add(row_weight(weight_in(tile_key, value), shift));
      }
    });
  }

  // --- Ties

  __device__ void answer_tie() {
    clear(sizeof(sharded::TieAnswer));
    const std::int32_t key = state_.tie.key;
    const auto nth = static_cast<int>(state_.tie.nth);
    if (state_.tie.shard != task_.shard) return;
    clear_numbers();
    __syncthreads();
    visit_from(key, [&](int tile, std::int32_t, const float(&x)[kLaneValues]) {
      int mine = 0;
      for (const float value : x) mine += order_key(value) == key ? 1 : 0;
      mine = __reduce_add_sync(kAllLanes, mine);
      if (lane_of_thread() == 0) numbers_[tile] = mine;
    });
    sum_numbers();
    auto& answer = *reinterpret_cast<sharded::TieAnswer*>(part_);
    if (thread() == 0) answer.id = -1;
    __syncthreads();
    uint128_t after = 0;
    visit_from(key, [&](int tile, std::int32_t tile_key, const float(&x)[kLaneValues]) {
      const uint128_t weight =
          row_weight(weight_in(tile_key, from_order_key(key)), shift_of(tile_key));
      int number = numbers_[tile];
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        const bool ties = order_key(x[i]) == key;
        const unsigned all = __ballot_sync(kAllLanes, ties);
        const int mine = number + __popc(all & before_lane()) + 1;
        number += __popc(all);
        if (!ties) continue;
        if (mine == nth) {
          answer.id = task_.parts[task_.shard].whole_begin + tile * kTileSize + i * kWarp +
                      lane_of_thread();
        }
        if (mine > nth) after += weight;
      }
    });
    after = BlockMasses(shared_.masses).sum(after);
    if (thread() == 0) answer.after = after;
  }

  // --- Tokens

  __device__ bool survives(std::int32_t key, int id) const {
    const int token = task_.parts[task_.shard].whole_begin + id;
    return key > state_.low || (key == state_.low && token < state_.tie_end);
  }

  /// Sums of the survivors of tiles.
  __device__ void sum_tiles() {
    const std::uint64_t* sums = task_.sums.data + number_ * task_.sums.row_stride;
#pragma unroll 1
    for (int tile = thread(); tile < tiles_; tile += kEndThreads) {
      sums_[tile] = state_.all_survive ? sums[tile] : 0;
    }
    __syncthreads();
    if (state_.all_survive) return;
    visit_from(state_.low, [&](int tile, std::int32_t tile_key, const float(&x)[kLaneValues]) {
      std::uint64_t mine = 0;
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        const std::int32_t key = order_key(x[i]);
        if (key == kEmptyTileKey) continue;
        if (survives(key, tile * kTileSize + i * kWarp + lane_of_thread())) {
          mine += weight_in(tile_key, x[i]);
        }
      }
      mine = warp_sum_of_tile(mine);
      if (lane_of_thread() == 0) sums_[tile] = mine;
    });
    __syncthreads();
  }
  __device__ uint128_t weight_of_tile(int tile) const {
    if (sums_[tile] == 0) return 0;
    return row_weight(sums_[tile], shift_of(keys_[tile]));
  }

  /// A tile's values in id order; of the rows that most calls have without the code of all others.
  __device__ void read_tile(int tile, float (&x)[kLaneValues]) const {
    if (row_.values.dtype != DType::float32 || !row_.values.aligned || row_.allowed != nullptr) {
      row_.read_in_order(tile, x);
      return;
    }
    const std::int64_t first = std::int64_t{tile} * kTileSize + lane_of_thread() * kLaneValues;
    const auto* values = reinterpret_cast<const float*>(row_.values.bytes);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      x[i] = first + i < row_.vocab ? values[first + i] : -INFINITY;
    }
  }
  /// A token of all outputs, in this rank's block.
  __device__ sharded::DrawnToken* answer_at(std::int64_t at) const {
    std::byte* tokens = task_.mine(ShardedExchange::tokens, 0);
    return reinterpret_cast<sharded::DrawnToken*>(tokens) + at;
  }
  /// By a warp.
  __device__ void draw(std::int64_t at) {
    const int tile = shared_.drawn_tile;
    const std::int32_t tile_key = keys_[tile];
    const int first = tile * kTileSize + lane_of_thread() * kLaneValues;
    float x[kLaneValues];
    read_tile(tile, x);
    const TileWeights<kFromProbs> rule(from_order_key(tile_key), rule_);
    const bool quick = rule.are_quick();
    std::uint64_t weights[kLaneValues];
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const std::int32_t key = order_key(x[i]);
      const bool counts = key > kEmptyTileKey && survives(key, first + i);
      const std::uint64_t weight = quick ? rule.weigh(x[i]) : weigh_slowly<kFromProbs>(rule, x[i]);
      weights[i] = counts ? weight : 0;
    }
    const int id = token_in_tile(tile, weights, shared_.drawn_rest);
    if (lane_of_thread() != 0) return;
    const auto bits = std::bit_cast<std::uint32_t>(row_.values[id]);
    sharded::DrawnToken* drawn = answer_at(at);
    drawn->id = task_.parts[task_.shard].whole_begin + id;
    drawn->bits = bits;
    drawn->raw_bits =
        task_.raw.given ? std::bit_cast<std::uint32_t>(RowValues::of(task_.raw.whole, number_)[id])
                        : bits;
  }

  const ShardedTask& task_;
  std::int64_t number_;
  const ShardedRowState& state_;
  int tiles_;
  std::byte* part_;
  AnswerMemory& shared_;
  std::uint64_t* sums_;
  std::int32_t* numbers_;
  const std::int32_t* keys_;
  FilteredRow row_;
  TileRule rule_;
};

}  // namespace fairdraw::cuda
