// Row as all ranks know the row from the summaries of all shards, with its largest value, its mass,
// and its known values (sharded/merged_row.h).
//
// All kEndThreads threads of a block must call the member functions together. One warp per shard
// adds up the shard's sums, and one warp per cut tile weighs the tile. Every rank can weigh a cut
// tile, because every shard has sent its part of the tile. Only received data is read, and nothing
// of this rank's own columns.
#pragma once

#include <climits>
#include <cstdint>

#include "common/float_order.h"
#include "common/parameters.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/sharded/block_words.cuh"
#include "cuda/sharded/known_values.cuh"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

// Code here is out of line if a row needs the code in several places, or rarely. A row executes the
// code once, after it is loaded from memory, so the code should be short and without gaps.

/// Returns the octave of the value with a given key.
template <bool kFromProbs>
__device__ __noinline__ double octave_of_key(std::int32_t key, float scale) {
  if constexpr (kFromProbs) return octaves_of_probability(from_order_key(key)).whole;
  return octaves_of(from_order_key(key), scale).whole;
}

/// Returns the sum of a tile's weights, from the keys of the tile's values in shared memory; `key`
/// is the largest of these keys. A whole warp must call this function.
template <bool kFromProbs>
__device__ __noinline__ std::uint64_t sum_of_keys(const std::int32_t* keys, int size,
                                                  std::int32_t key, TileWeighing rule) {
  if (key == kEmptyTileKey) return 0;
  const TileWeights<kFromProbs> weights(from_order_key(key), rule);
  const bool quick = weights.are_quick();
  std::uint64_t sum = 0;
#pragma unroll 1
  for (int i = lane_of_thread(); i < size; i += kWarp) {
    const float x = kFromProbs ? fmaxf(from_order_key(keys[i]), 0.0F) : from_order_key(keys[i]);
    sum += quick ? weights.weigh(x) : weights.weigh_slowly(x);
  }
  return warp_sum_of_tile(sum);
}

/// Known token and the bits of its value.
struct KnownToken {
  std::int32_t id;
  std::uint32_t bits;
};

/// First fields of a shard's summary.
struct ShardHead {
  std::int32_t max_key;
  KnownToken first;
  std::uint32_t allowed;
};

/// Tile that is cut by shard boundaries.
struct CutTile {
  std::int32_t key;
  KnownToken first;  ///< first token that has the largest key of the tile
  std::uint64_t sum;
  std::int32_t raw_key;   ///< largest key of the caller's logits in the tile, if the call reports
                          ///< the caller's logits
  std::uint64_t raw_sum;  ///< weight of the caller's logits in the tile at temperature 1, if the
                          ///< call reports the caller's logits
  int shift;
};

/// Shared memory of MergedRow.
struct MergedRowMemory {
  KnownValuesMemory known;
  BlockScratch<std::int32_t> keys;
  ShardHead heads[kMaxDeviceShards];
  CutTile cut[kMaxCutTiles];
  uint128_t whole[kMaxDeviceShards];  ///< for each shard, the mass of its whole tiles in the row's
                                      ///< unit
  uint128_t raw[kMaxDeviceShards];    ///< for each shard, the mass of its logits at temperature 1
};

template <bool kFromProbs>
class MergedRow {
  using RowSummary = sharded::RowSummary;

 public:
  using Memory = MergedRowMemory;

  __device__ MergedRow(const ShardedTask& task, const ReceivedBlocks& blocks, std::int64_t number,
                       const KnownArrays& arrays, Memory& memory)
      : task_(task),
        blocks_(blocks),
        number_(number),
        memory_(memory),
        arrays_(arrays),
        known_(task, arrays, memory.known),
        parameters_{task.temperature.at(number), task.top_k.at(number), task.top_p.at(number),
                    task.min_p.at(number)} {}

  /// Copies the summaries of all shards to shared memory, with as many loads in flight as possible.
  /// This function must be called before all others, and a barrier must follow the call.
  __device__ void load() {
    greedy_ = is_greedy(parameters_);
    top_k_ = top_k_is_on(parameters_.top_k, task_.vocab);
    filtered_ = !greedy_ && (parameters_.min_p > 0.0F || parameters_.top_p < 1.0F || top_k_);
    const bool all = filtered_ || task_.top_n > 0 || task_.raw_at > 0;
    const int bytes = all ? static_cast<int>(task_.each[0]) : static_cast<int>(candidate_at(0));
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      const std::byte* from = blocks_.row(ShardedExchange::summary, shard, number_);
      std::byte* to = arrays_.summaries + shard * task_.each[0];
#pragma unroll 4
      for (int byte = 4 * thread(); byte < bytes; byte += 4 * kEndThreads) {
        word_of(to, static_cast<std::size_t>(byte)) = word_of(from, static_cast<std::size_t>(byte));
      }
    }
  }

  /// Returns the first fault among all shards, in the order of the values of RowStatus. The status
  /// is no_allowed_token only if none of the shards has an allowed token.
  __device__ RowStatus status() const {
    constexpr int kLast = 1 << 16;
    int worst = kLast;
    bool any_allowed = false;
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      const auto status =
          static_cast<RowStatus>(word_of(summary(shard), offsetof(RowSummary, status)));
      if (status == RowStatus::ok) any_allowed = true;
      if (status == RowStatus::ok || status == RowStatus::no_allowed_token) continue;
      worst = ::min(worst, static_cast<int>(status));
    }
    if (worst < kLast) return static_cast<RowStatus>(worst);
    return any_allowed ? RowStatus::ok : RowStatus::no_allowed_token;
  }

  /// Merges the summaries of a row whose status is ok. Ends with a barrier.
  __device__ void merge() {
    rule_ = {logit_scale(parameters_.temperature == 0.0F ? 1.0F : parameters_.temperature), true};
    read_heads();
    read_cut_values();
    if (filtered_ || task_.top_n > 0) read_candidates();
    const auto tiles = static_cast<int>(tiles_of(task_.vocab));
    if (filtered_) {
#pragma unroll 1
      for (int i = thread(); i < tiles; i += kEndThreads) arrays_.tile_max[i] = kEmptyTileKey;
    }
    __syncthreads();
    index_cut_tiles();
    __syncthreads();
    find_largest();
    weigh_shards();
    __syncthreads();
    unfiltered_ = {0, 0};
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      unfiltered_.count += memory_.heads[shard].allowed;
      unfiltered_.mass += memory_.whole[shard];
    }
#pragma unroll 1
    for (int tile = 0; tile < task_.cut_tiles; ++tile) {
      unfiltered_.mass += row_weight(memory_.cut[tile].sum, memory_.cut[tile].shift);
    }
    if (task_.raw_at > 0) {
      MergedRow copy(*this);  // works on a copy, so that *this stays in registers
      copy.merge_raw();
      raw_ = copy.raw_;
      raw_max_key_ = copy.raw_max_key_;
    }
    std::int32_t mine = 0;
#pragma unroll 1
    for (int i = thread(); i < task_.cut_total; i += kEndThreads) {
      mine += arrays_.key[known_.first_cut() + i] > kEmptyTileKey ? 1 : 0;
    }
    unfiltered_.count += static_cast<std::uint64_t>(reduce_block(mine, memory_.keys, Add{}));
    if (filtered_) known_.arrange(left_key_, rule_, max_key_);
  }

  __device__ const RowParameters& parameters() const { return parameters_; }
  __device__ const TileWeighing& rule() const { return rule_; }
  __device__ bool is_greedy_row() const { return greedy_; }
  __device__ bool has_top_k() const { return top_k_; }
  __device__ bool is_filtered() const { return filtered_; }
  /// Returns the certificate, which is a key such that the shards have listed all values with
  /// larger keys.
  __device__ std::int32_t left_key() const { return left_key_; }
  __device__ std::int32_t max_key() const { return max_key_; }
  __device__ double octave() const { return octave_; }
  __device__ const KnownToken& first_at_max() const { return first_at_max_; }
  __device__ const Totals& unfiltered() const { return unfiltered_; }
  __device__ const KnownValues<kFromProbs>& known() const { return known_; }
  /// Returns the weight of the caller's logits at temperature 1; their largest key is
  /// raw_max_key(). The result is valid only if the call requests raw_logprobs.
  __device__ uint128_t raw() const { return raw_; }
  __device__ std::int32_t raw_max_key() const { return raw_max_key_; }
  /// Returns the bits of a known value as a float.
  __device__ std::uint32_t bits_of(int place) const {
    const std::int32_t key = known_.key_of(place);
    if (key != 0) return std::bit_cast<std::uint32_t>(from_order_key(key));
    // The zeros 0.0 and -0.0 have the same key, so the bits are read instead.
    if (place >= known_.first_cut()) return cut_bits(place - known_.first_cut());
    const int shard = place / task_.candidates;
    return word_of(summary(shard), candidate_at(place % task_.candidates));
  }
  /// Returns the bits, as a float, of the caller's logit for the token of a known value.
  __device__ std::uint32_t raw_bits_of(int place) const {
    if (!task_.raw.given) return bits_of(place);
    if (place >= known_.first_cut()) return raw_cut_bits(place - known_.first_cut());
    return word_of(summary(place / task_.candidates),
                   candidate_at(place % task_.candidates) + sizeof(sharded::Candidate));
  }
  /// Returns the bits, as a float, of the caller's logit for the first token that has the row's
  /// largest value.
  __device__ std::uint32_t raw_bits_of_first() const {
    const KnownToken& first = first_at_max_;
    if (!task_.raw.given) return first.bits;
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      const ShardPart& part = task_.parts[shard];
      if (first.id >= part.whole_begin && first.id < part.whole_end) {
        return word_of(summary(shard), offsetof(RowSummary, max_raw_bits));
      }
    }
    int i = 0;
#pragma unroll 1
    while (arrays_.id[known_.first_cut() + i] != first.id) ++i;
    return raw_cut_bits(i);
  }

  /// Replaces the known values by the largest of the caller's logits, as the shards have listed
  /// them, and by the caller's logits in cut tiles. Returns their number. All threads must call
  /// this function, for a masked or processed row, and a barrier must follow the call.
  __device__ int load_raw() const {
    const int listed_of_all = task_.shards * task_.raw.candidates;
    const int n = listed_of_all + task_.cut_total;
#pragma unroll 1
    for (int i = thread(); i < n; i += kEndThreads) {
      arrays_.key[i] = kEmptyTileKey;
      arrays_.id[i] = INT_MAX;
      if (i >= listed_of_all) {
        const int cut = i - listed_of_all;
        const CutPiece& piece = piece_of(cut);
        arrays_.key[i] = order_key(std::bit_cast<float>(raw_cut_bits(cut)));
        arrays_.id[i] = piece.begin + (cut - piece.at);
        continue;
      }
      const std::byte* from = summary(i / task_.raw.candidates);
      const int place = i % task_.raw.candidates;
      const auto raw_at = static_cast<std::size_t>(task_.raw_at);
      if (place >=
          static_cast<int>(word_of(from, raw_at + offsetof(sharded::RawSummary, listed)))) {
        continue;
      }
      arrays_.key[i] = order_key(std::bit_cast<float>(word_of(from, raw_candidate_at(place))));
      arrays_.id[i] = static_cast<std::int32_t>(word_of(from, raw_candidate_at(place) + 4));
    }
    return n;
  }
  /// Returns the key of one of the caller's logits that load_raw has loaded.
  __device__ std::int32_t raw_key(int i) const { return arrays_.key[i]; }
  __device__ std::int32_t raw_id(int i) const { return arrays_.id[i]; }
  __device__ std::uint32_t loaded_raw_bits(int i) const {
    const int listed_of_all = task_.shards * task_.raw.candidates;
    if (i >= listed_of_all) return raw_cut_bits(i - listed_of_all);
    return word_of(summary(i / task_.raw.candidates), raw_candidate_at(i % task_.raw.candidates));
  }
  __device__ uint128_t whole(int shard) const { return memory_.whole[shard]; }
  __device__ const CutTile& cut_tile(int number) const { return memory_.cut[number]; }
  /// Returns shared memory that the next reduction may use.
  __device__ BlockScratch<std::int32_t>& scratch() const { return memory_.keys; }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ const std::byte* summary(int shard) const {
    return arrays_.summaries + shard * task_.each[0];
  }

  /// Returns the piece of a cut tile that contains the value with index i among all values of cut
  /// tiles.
  __device__ const CutPiece& piece_of(int i) const {
    int number = 0;
#pragma unroll 1
    while (number + 1 < task_.piece_count && i >= task_.pieces[number + 1].at) ++number;
    return task_.pieces[number];
  }
  __device__ std::uint32_t cut_bits(int i) const { return cut_bits_at(sizeof(RowSummary), i); }
  __device__ std::uint32_t raw_cut_bits(int i) const {
    return cut_bits_at(static_cast<std::size_t>(task_.raw.cut_at), i);
  }
  __device__ std::uint32_t cut_bits_at(std::size_t values_at, int i) const {
    const CutPiece& piece = piece_of(i);
    const int place = piece.in_summary + (i - piece.at);
    return word_of(summary(piece.shard), values_at + 4 * static_cast<std::size_t>(place));
  }
  __device__ std::size_t raw_candidate_at(int place) const {
    return static_cast<std::size_t>(task_.raw.candidates_at) +
           sizeof(sharded::Candidate) * static_cast<std::size_t>(place);
  }

  __device__ void read_heads() {
    left_key_ = kEmptyTileKey;
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      left_key_ =
          ::max(left_key_,
                static_cast<std::int32_t>(word_of(summary(shard), offsetof(RowSummary, left_key))));
    }
    if (thread() >= task_.shards) return;
    const std::byte* from = summary(thread());
    ShardHead& head = memory_.heads[thread()];
    head.max_key = static_cast<std::int32_t>(word_of(from, offsetof(RowSummary, max_key)));
    head.first = {static_cast<std::int32_t>(word_of(from, offsetof(RowSummary, max_id))),
                  word_of(from, offsetof(RowSummary, max_bits))};
    head.allowed = word_of(from, offsetof(RowSummary, allowed));
  }

  /// Writes the values of cut tiles into the arrays of known values.
  __device__ void read_cut_values() {
#pragma unroll 1
    for (int i = thread(); i < task_.cut_total; i += kEndThreads) {
      const CutPiece& piece = piece_of(i);
      const std::int32_t key = order_key(std::bit_cast<float>(cut_bits(i)));
      arrays_.key[known_.first_cut() + i] = kFromProbs && key <= 0 ? kEmptyTileKey : key;
      arrays_.id[known_.first_cut() + i] = piece.begin + (i - piece.at);
    }
  }

  /// Computes the largest key and the sum of each cut tile, with one warp per tile.
  __device__ void index_cut_tiles() {
#pragma unroll 1
    for (int tile = warp_of_thread(); tile < task_.cut_tiles; tile += kEndWarps) {
      const CutSpan& span = task_.cut[tile];
      const int at = known_.first_cut() + span.at;
      const std::int32_t* keys = arrays_.key + at;
      std::int32_t key = kEmptyTileKey;
#pragma unroll 1
      for (int i = lane_of_thread(); i < span.size; i += kWarp) key = ::max(key, keys[i]);
      key = __reduce_max_sync(kAllLanes, key);
      int first = INT_MAX;
#pragma unroll 1
      for (int i = lane_of_thread(); i < span.size; i += kWarp) {
        if (keys[i] == key) first = ::min(first, i);
      }
      first = __reduce_min_sync(kAllLanes, first);
      const std::uint64_t sum = sum_of_keys<kFromProbs>(keys, span.size, key, rule_);
      std::uint64_t raw_sum = 0;
      if (task_.raw_at > 0 && !task_.raw.given) {
        raw_sum = sum_of_keys<false>(keys, span.size, key, {logit_scale(1.0F), true});
      }
      if (lane_of_thread() != 0) continue;
      memory_.cut[tile] = {key, {span.begin + first, bits_of(at + first)}, sum, key, raw_sum, -1};
      if (filtered_) arrays_.tile_max[span.begin / kTileSize] = key;
    }
  }

  __device__ void find_largest() {
    max_key_ = kEmptyTileKey;
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      max_key_ = ::max(max_key_, memory_.heads[shard].max_key);
    }
#pragma unroll 1
    for (int tile = 0; tile < task_.cut_tiles; ++tile) {
      max_key_ = ::max(max_key_, memory_.cut[tile].key);
    }
    first_at_max_ = {INT_MAX, 0};
    const auto see = [this](std::int32_t key, const KnownToken& first) {
      if (key == max_key_ && first.id < first_at_max_.id) first_at_max_ = first;
    };
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      see(memory_.heads[shard].max_key, memory_.heads[shard].first);
    }
#pragma unroll 1
    for (int tile = 0; tile < task_.cut_tiles; ++tile) {
      see(memory_.cut[tile].key, memory_.cut[tile].first);
    }
    octave_ = octave_of_key<kFromProbs>(max_key_, rule_.scale);
  }

  /// Computes the weight of a shard's whole tiles, in the unit of a row whose largest value has the
  /// octave `row_octave`, from the shard's sums by octave. `key` is the largest key of the shard's
  /// whole tiles. A whole warp must call this function.
  __device__ __noinline__ static uint128_t mass_of_octaves(const std::byte* sums, std::int32_t key,
                                                           float scale, double row_octave) {
    uint128_t mass = 0;
    if (key != kEmptyTileKey) {
      const double octave = octave_of_key<kFromProbs>(key, scale);
#pragma unroll 1
      for (int gap = lane_of_thread(); gap < sharded::kOctaveSums; gap += kWarp) {
        const int shift = row_shift(row_octave, octave - static_cast<double>(gap));
        if (shift < 0) continue;
        mass += read_sum(sums, sizeof(sharded::Sum128) * static_cast<std::size_t>(gap)) << shift;
      }
    }
    return value_of_lane(warp_inclusive_sum(mass), kWarp - 1);
  }

  /// Computes the mass of each shard, with one warp per shard, and the shifts of the cut tiles.
  __device__ void weigh_shards() {
#pragma unroll 1
    for (int shard = warp_of_thread(); shard < task_.shards; shard += kEndWarps) {
      const std::int32_t key = memory_.heads[shard].max_key;
      const uint128_t mass = mass_of_octaves(summary(shard) + offsetof(RowSummary, octaves), key,
                                             rule_.scale, octave_);
      if (lane_of_thread() == 0) memory_.whole[shard] = mass;
    }
    if (thread() < task_.cut_tiles) {
      CutTile& tile = memory_.cut[thread()];
      if (tile.key != kEmptyTileKey) {
        tile.shift = row_shift(octave_, octave_of_key<kFromProbs>(tile.key, rule_.scale));
      }
    }
  }

  __device__ std::int32_t raw_key_of_shard(int shard) const {
    return static_cast<std::int32_t>(
        word_of(summary(shard),
                static_cast<std::size_t>(task_.raw_at) + offsetof(sharded::RawSummary, max_key)));
  }
  /// Adds up the masses of the shards for the caller's logits at temperature 1.
  __device__ __noinline__ void merge_raw() {
    if (task_.raw.given) index_raw_cut_tiles();
    raw_max_key_ = kEmptyTileKey;
    for (int shard = 0; shard < task_.shards; ++shard) {
      raw_max_key_ = ::max(raw_max_key_, raw_key_of_shard(shard));
    }
    for (int tile = 0; tile < task_.cut_tiles; ++tile) {
      raw_max_key_ = ::max(raw_max_key_, memory_.cut[tile].raw_key);
    }
    const float scale = logit_scale(1.0F);
    const double octave = octave_of_key<kFromProbs>(raw_max_key_, scale);
#pragma unroll 1
    for (int shard = warp_of_thread(); shard < task_.shards; shard += kEndWarps) {
      const uint128_t mass =
          mass_of_octaves(summary(shard) + task_.raw_at + offsetof(sharded::RawSummary, octaves),
                          raw_key_of_shard(shard), scale, octave);
      if (lane_of_thread() == 0) memory_.raw[shard] = mass;
    }
    __syncthreads();
    raw_ = 0;
    for (int shard = 0; shard < task_.shards; ++shard) raw_ += memory_.raw[shard];
    for (int tile = 0; tile < task_.cut_tiles; ++tile) {
      const CutTile& cut = memory_.cut[tile];
      if (cut.raw_key == kEmptyTileKey) continue;
      const double of_tile = octave_of_key<kFromProbs>(cut.raw_key, scale);
      raw_ += row_weight(cut.raw_sum, row_shift(octave, of_tile));
    }
  }
  /// Computes the largest key and the sum of the caller's logits in each cut tile, with one warp
  /// per tile. The function ends with a barrier.
  __device__ void index_raw_cut_tiles() {
#pragma unroll 1
    for (int tile = warp_of_thread(); tile < task_.cut_tiles; tile += kEndWarps) {
      const CutSpan& span = task_.cut[tile];
      std::int32_t key = kEmptyTileKey;
#pragma unroll 1
      for (int i = lane_of_thread(); i < span.size; i += kWarp) {
        key = ::max(key, order_key(std::bit_cast<float>(raw_cut_bits(span.at + i))));
      }
      key = __reduce_max_sync(kAllLanes, key);
      std::uint64_t sum = 0;
      if (key != kEmptyTileKey) {
        const TileWeights<false> weights(from_order_key(key), {logit_scale(1.0F), true});
#pragma unroll 1
        for (int i = lane_of_thread(); i < span.size; i += kWarp) {
          sum += weights.weigh_slowly(std::bit_cast<float>(raw_cut_bits(span.at + i)));
        }
      }
      sum = warp_sum_of_tile(sum);
      if (lane_of_thread() != 0) continue;
      memory_.cut[tile].raw_key = key;
      memory_.cut[tile].raw_sum = sum;
    }
    __syncthreads();
  }

  __device__ std::size_t candidate_at(int place) const {
    return sizeof(RowSummary) + 4 * static_cast<std::size_t>(task_.cut_values) +
           static_cast<std::size_t>(task_.candidate_bytes) * static_cast<std::size_t>(place);
  }

  __device__ void read_candidates() {
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      const std::byte* from = summary(shard);
      const auto listed = static_cast<int>(word_of(from, offsetof(RowSummary, listed)));
#pragma unroll 1
      for (int place = thread(); place < task_.candidates; place += kEndThreads) {
        const int slot = shard * task_.candidates + place;
        const std::size_t at = candidate_at(place);
        const float x = std::bit_cast<float>(word_of(from, at));
        const auto id = static_cast<std::int32_t>(word_of(from, at + 4));
        arrays_.key[slot] = place < listed ? order_key(x) : kEmptyTileKey;
        arrays_.id[slot] = place < listed ? id : INT_MAX;
      }
    }
  }

  const ShardedTask& task_;
  ReceivedBlocks blocks_;
  std::int64_t number_;
  Memory& memory_;
  KnownArrays arrays_;
  KnownValues<kFromProbs> known_;
  RowParameters parameters_;

  TileWeighing rule_{};
  bool greedy_ = false, top_k_ = false, filtered_ = false;
  std::int32_t left_key_ = kEmptyTileKey, max_key_ = kEmptyTileKey, raw_max_key_ = kEmptyTileKey;
  double octave_ = 0;
  KnownToken first_at_max_{};
  Totals unfiltered_{};
  uint128_t raw_ = 0;
};

}  // namespace fairdraw::cuda
