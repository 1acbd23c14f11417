// Answers the requests of rows for tokens and sums with the columns of this shard
// (sharded/exchange.h).
//
// Contract: the results equal those of the CPU, bit for bit. For each token that a row requests,
// the code lists the token's attempts (common/proposals.h) that are in this shard's whole tiles and
// may be the first accepted attempt. Zeros follow after these attempts. After the lists of all
// shards have arrived, the code sums the weight of this shard's columns above the listed attempts.
//
// Algorithm and cost. Each row has one block of 256 threads, which computes a prefix sum over the
// tiles of the index and processes eight attempts at a time; for each attempt, one warp weighs one
// tile again. A row without dropped tokens needs one attempt, and a nucleus of p rarely more than 1
// / p attempts. For the sums, each token takes another pass over the tiles whose largest value is
// above the smallest value requested for the token.
//
// Randomness: the code uses the random words of attempts. Numerics: the weights are defined in
// common/tile_weights.h. Determinism: integers.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cuda/device/block_masses.cuh"
#include "cuda/device/block_sums.cuh"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/sharded/row_outputs.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/sharded/token_records.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_draw.cuh"

namespace fairdraw::cuda {

/// Dynamic shared memory of RowAnswerer.
struct AnswerMemory {
  BlockMasses::Memory masses;
  uint128_t place[kEndWarps];  ///< for each attempt, its position in the mass of the shard's whole
                               ///< tiles
  std::uint64_t rest[kEndWarps];
  int tile[kEndWarps];  ///< for each attempt, its tile, or -1 if no tile of this shard has the
                        ///< attempt
  std::int32_t keys[sharded::kRecords];
  sharded::TokenAttempt drawn[kEndWarps];
};

/// Returns the weight of a token, computed with doubles. The function is out of line, because it is
/// rarely executed.
template <bool kFromProbs>
__device__ __noinline__ std::uint64_t weigh_slowly(TileWeights<kFromProbs> rule, float x) {
  return rule.weigh_slowly(x);
}

template <bool kFromProbs>
class RowAnswerer {
 public:
  __device__ RowAnswerer(const ShardedTask& task, std::int64_t number, unsigned char* dynamic)
      : task_(task),
        number_(number),
        state_(task.states[number]),
        tiles_(task.tiles()),
        shared_(*reinterpret_cast<AnswerMemory*>(dynamic)),
        sums_(task.sums.data + number * task.sums.row_stride),
        keys_(task.keys.data + number * task.keys.row_stride),
        row_(FilteredRow::whole(task.whole, number, kFromProbs)),
        rule_{state_.scale, true} {
    if (task.whole_allowed.given()) {
      row_.allowed = task.whole_allowed.data + number * task.whole_allowed.row_stride;
    }
  }

  /// Lists the attempts whose tokens are in this shard, with zeros for all other attempts.
  __device__ void list_tokens() {
    const RowOutputs outputs(task_, number_);
#pragma unroll 1
    for (int i = thread(); i < outputs.tokens() * task_.attempts; i += kEndThreads) {
      answer_at(outputs.at(i / task_.attempts))[i % task_.attempts] = {0, 0, 0, 0};
    }
    if (tiles_ == 0) return;
    const int share = (tiles_ + kEndThreads - 1) / kEndThreads;
    TileRange mine{::min(thread() * share, tiles_), 0, 0, 0};
    mine.end = ::min(mine.begin + share, tiles_);
#pragma unroll 1
    for (int tile = mine.begin; tile < mine.end; ++tile) mine.mass += weight_of_tile(tile);
    mine.before = BlockMasses(shared_.masses).prefix(mine.mass).before;
#pragma unroll 1
    for (int t = 0; t < outputs.tokens(); ++t) {
      const std::uint32_t asked = task_.drawn[outputs.at(t)].attempts;
      Listed listed{0, state_.rejected_below - 1};
#pragma unroll 1
      for (std::uint32_t first = 0; first < asked; first += kEndWarps) {
        const auto count = static_cast<int>(::min(asked - first, std::uint32_t{kEndWarps}));
        if (list_attempts(outputs, t, first, count, mine, listed)) break;
      }
    }
  }

  /// Sums the weights of this shard's columns above the records of the row's tokens.
  __device__ void sum_above(const ReceivedBlocks& blocks) {
    const RowOutputs outputs(task_, number_);
#pragma unroll 1
    for (int t = 0; t < outputs.tokens(); ++t) {
      __syncthreads();  // wait until all threads have read the previous keys
      if (thread() == 0) {
        const TokenRecords records = records_of(task_, blocks, state_, outputs.at(t));
        for (int i = 0; i < kRecords; ++i) {
          const bool is_asked = i < records.count && records.key(i) < state_.accepted_from;
          shared_.keys[i] = is_asked ? records.key(i) : sharded::kNoRecord;
        }
      }
      __syncthreads();
      uint128_t above[kRecords] = {};
      if (shared_.keys[0] != sharded::kNoRecord) {  // the keys are in ascending order, so the first
                                                    // key is the smallest
        add_tiles(above);
        add_cut_values(above);
      }
      auto* sums = reinterpret_cast<sharded::Sum128*>(task_.mine(ShardedExchange::sums, 0)) +
                   outputs.at(t) * kRecords;
      BlockMasses masses(shared_.masses);
#pragma unroll
      for (int i = 0; i < kRecords; ++i) {
        const uint128_t sum = masses.sum(above[i]);
        if (thread() == 0) sums[i] = sum;
      }
    }
  }

 private:
  /// Tiles of one thread, their mass, and the mass of the shard's preceding whole tiles.
  struct TileRange {
    int begin, end;
    uint128_t mass, before;
  };

  /// Number of attempts that are listed for a token, with the key of the last of these attempts.
  struct Listed {
    int count;
    std::int32_t key;
  };
  static constexpr int kRecords = static_cast<int>(sharded::kRecords);

  /// Lists `count` attempts of a token, from attempt number `first` on, with one warp per attempt.
  /// Returns whether the list of the token is complete.
  __device__ bool list_attempts(const RowOutputs& outputs, int t, std::uint32_t first, int count,
                                const TileRange& mine, Listed& listed) {
    __syncthreads();  // wait until all threads have read the previous attempts
    if (thread() < count) {
      const auto attempt = first + static_cast<std::uint32_t>(thread());
      // Positions before the shard's tiles wrap around to large numbers, and are therefore in no
      // tile.
      shared_.place[thread()] =
          multiply_high(outputs.word_of(task_, t, attempt), state_.unfiltered.value()) -
          state_.in_front.value();
      shared_.tile[thread()] = -1;
      shared_.drawn[thread()].attempts = 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < count; ++i) find_tile(i, mine);
    __syncthreads();
    const int warp = warp_of_thread();
    if (warp < count && shared_.tile[warp] >= 0) {
      draw(warp, first + static_cast<std::uint32_t>(warp) + 1);
    }
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const sharded::TokenAttempt& drawn = shared_.drawn[i];
      if (drawn.attempts == 0) continue;
      const std::int32_t key = order_key(std::bit_cast<float>(drawn.bits));
      if (key <= listed.key) continue;
      if (thread() == 0) answer_at(outputs.at(t))[listed.count] = drawn;
      listed = {listed.count + 1, key};
      if (listed.count == task_.attempts || key >= state_.accepted_from) return true;
    }
    return false;
  }

  /// Adds the weights of the whole tiles to the sums of each lane, which are the sums above the
  /// given keys.
  __device__ void add_tiles(uint128_t (&above)[kRecords]) const {
#pragma unroll 1
    for (int tile = warp_of_thread(); tile < tiles_; tile += kEndWarps) {
      if (keys_[tile] <= shared_.keys[0]) continue;
      float x[kLaneValues];
      std::uint64_t weights[kLaneValues];
      weigh_tile(tile, x, weights);
      const int shift = shift_of(keys_[tile]);
#pragma unroll
      for (int i = 0; i < kRecords; ++i) {
        if (keys_[tile] <= shared_.keys[i]) break;
        std::uint64_t sum = 0;
#pragma unroll
        for (int j = 0; j < kLaneValues; ++j) {
          sum += order_key(x[j]) > shared_.keys[i] ? weights[j] : 0;
        }
        above[i] += row_weight(sum, shift);
      }
    }
  }
  /// Adds the weights of this shard's columns in cut tiles to the sums. The largest key of each cut
  /// tile is known from the merge.
  __device__ void add_cut_values(uint128_t (&above)[kRecords]) const {
    const ShardPart& part = task_.parts[task_.shard];
    FilteredRow columns = FilteredRow::whole(task_.columns, number_, kFromProbs);
    if (task_.allowed.given()) {
      columns.allowed = task_.allowed.data + number_ * task_.allowed.row_stride;
    }
#pragma unroll 1
    for (int i = thread(); i < part.cut_values(); i += kEndThreads) {
      const int column = part.cut_column(i);
      const float x = columns.values[column];
      const std::int32_t key = order_key(x);
      if (key <= shared_.keys[0] || !columns.is_allowed(column, x)) continue;
      int cut = 0;
      while (part.begin + column >= task_.cut[cut].begin + task_.cut[cut].size) ++cut;
      const std::int32_t largest = state_.cut_keys[cut];
      if (key > largest) continue;  // only wrong received blocks can lead here
      const TileWeights<kFromProbs> rule(from_order_key(largest), rule_);
      const uint128_t weight = row_weight(weigh_slowly<kFromProbs>(rule, x), shift_of(largest));
#pragma unroll
      for (int j = 0; j < kRecords; ++j) {
        above[j] += key > shared_.keys[j] ? weight : uint128_t{0};
      }
    }
  }

  /// Finds the tile that contains the position of an attempt; the result is stored by the thread
  /// whose range has the tile.
  __device__ void find_tile(int i, const TileRange& mine) {
    const uint128_t place = shared_.place[i];
    if (place < mine.before || place - mine.before >= mine.mass) return;
    uint128_t rest = place - mine.before;
    int tile = mine.begin;
#pragma unroll 1
    for (; tile + 1 < mine.end; ++tile) {
      const uint128_t weight = weight_of_tile(tile);
      if (rest < weight) break;
      rest -= weight;
    }
    shared_.tile[i] = tile;
    shared_.rest[i] = static_cast<std::uint64_t>(rest >> shift_of(keys_[tile]));
  }

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  __device__ int shift_of(std::int32_t tile_key) const {
    const float largest = from_order_key(tile_key);
    if constexpr (kFromProbs) {
      return row_shift(state_.octave, octaves_of_probability(largest).whole);
    }
    return row_shift(state_.octave, octaves_of(largest, rule_.scale).whole);
  }
  __device__ uint128_t weight_of_tile(int tile) const {
    if (keys_[tile] == kEmptyTileKey) return 0;
    return row_weight(sums_[tile], shift_of(keys_[tile]));
  }

  /// Reads the values of a tile in the order of ids. Rows of the most common form have a short path
  /// of code of their own.
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
  __device__ void weigh_tile(int tile, float (&x)[kLaneValues],
                             std::uint64_t (&weights)[kLaneValues]) const {
    read_tile(tile, x);
    const TileWeights<kFromProbs> rule(from_order_key(keys_[tile]), rule_);
    const bool quick = rule.are_quick();
#pragma unroll
    for (int j = 0; j < kLaneValues; ++j) {
      const std::uint64_t weight = quick ? rule.weigh(x[j]) : weigh_slowly<kFromProbs>(rule, x[j]);
      weights[j] = order_key(x[j]) > kEmptyTileKey ? weight : 0;
    }
  }
  /// Returns the address of a token's list in the block of this rank; `at` is the index of the
  /// token among the tokens of all outputs.
  __device__ sharded::TokenAttempt* answer_at(std::int64_t at) const {
    std::byte* tokens = task_.mine(ShardedExchange::tokens, 0);
    return reinterpret_cast<sharded::TokenAttempt*>(tokens) + at * task_.attempts;
  }
  /// Draws the token of an attempt, unless the attempt is rejected; a whole warp must call this
  /// function.
  __device__ void draw(int i, std::uint32_t attempts) {
    const int tile = shared_.tile[i];
    float x[kLaneValues];
    std::uint64_t weights[kLaneValues];
    weigh_tile(tile, x, weights);
    const int place = token_in_tile(tile, weights, shared_.rest[i]);
    if (lane_of_thread() != 0) return;
    const float value = row_.values[place];
    if (order_key(value) < state_.rejected_below) return;
    const int id = task_.parts[task_.shard].whole_begin + place;
    const float raw = task_.raw.given ? RowValues::of(task_.raw.whole, number_)[place] : value;
    shared_.drawn[i] = {attempts, id, std::bit_cast<std::uint32_t>(value),
                        std::bit_cast<std::uint32_t>(raw)};
  }

  const ShardedTask& task_;
  std::int64_t number_;
  const ShardedRowState& state_;
  int tiles_;
  AnswerMemory& shared_;
  const std::uint64_t* sums_;
  const std::int32_t* keys_;
  FilteredRow row_;
  TileWeighing rule_;
};

}  // namespace fairdraw::cuda
