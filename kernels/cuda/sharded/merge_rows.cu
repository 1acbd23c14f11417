// The merge of what shards say of a row: its threshold and its tokens, the same on every rank.
//
// Contract. sharded/merged_row.h, bit for bit: from the summaries of all shards, and from answers
// to what a row has asked since, either the row's results or its next question. It reads nothing
// but what was received, and the row's own state. Rows that have asked nothing of this exchange are
// left alone. One that has its tokens writes its results; the others keep what they had.
//
// Algorithm and cost. A block of 256 threads a row. Faults, the largest value and totals are sums
// over shards, by a warp each. What is known value by value (known_values.cuh) is ordered by binary
// searches, weighed, and summed; then each threshold is a binary search over prefix sums, which
// every thread does for itself, and no barrier is between them. The token is the known survivor in
// whose part of the mass, in the order of ids, the drawn position lies: counted by each survivor
// over the others, which for the 50 of a top_k is less than to sort them.
//
// Questions. Below what is known a row asks about a window of values, and is run again from its
// start when answers have come: thresholds that were found are kept, at most three a row, and the
// order in which they are asked for is always the same. Each candidate for the threshold, the
// points that shards name and the values of cut tiles, is measured by a thread. All of that is
// rare, and in functions of its own.
//
// Randomness: the words of `sample` (common/philox.h). Numerics: common/tile_weights.h; masses are
// integers of 128 bits. Log-probabilities in double, as log_mass.h. Determinism: no order of
// threads shows.
#include <math_constants.h>

#include <cfloat>
#include <climits>
#include <cstdint>

#include "common/float_order.h"
#include "common/log_mass.h"
#include "common/parameters.h"
#include "common/philox.h"
#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/sharded/block_words.cuh"
#include "cuda/sharded/known_values.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/filtered_row.cuh"
#include "cuda/tiles/min_p_key.cuh"
#include "cuda/tiles/tile_launch.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {
namespace {

using sharded::kOctaveSums;
using sharded::RowSummary;
using sharded::ThresholdAnswer;

/// The key of the smallest float: no allowed value is below.
constexpr std::int32_t kLowest = kEmptyTileKey + 1;

/// A token that is known, with its value.
struct Known {
  std::int32_t id;
  std::uint32_t bits;
};

struct Head {
  RowStatus status;
  std::int32_t max_key;
  Known first;
  std::uint32_t allowed;
  int listed;
};

struct CutTile {
  std::int32_t key;
  Known first;  ///< with that key
  std::uint64_t sum;
  int shift;
};

/// At the beginning of dynamic shared memory; the known values follow.
struct Shared {
  KnownValues::Memory known;
  BlockScratch<std::int32_t> keys;
  Head heads[kMaxDeviceShards];
  CutTile cut[kMaxCutTiles];
  uint128_t whole[kMaxDeviceShards];            ///< mass of each shard's whole tiles
  sharded::Measure cut_ties[kMaxDeviceShards];  ///< that top_k drops, of whole tiles
  uint128_t part_mass[kMaxRowParts];
  ShardedToken tokens[kMaxShardedSamples];
};
constexpr int known_at() { return (static_cast<int>(sizeof(Shared)) + 15) / 16 * 16; }

enum class By { count, mass };

/// Values >= key, and those above.
struct Threshold {
  static constexpr int kOfKnown = -1, kEverything = -2;

  std::int32_t key;
  Totals at_least, above;
  int found;  ///< number of the row's threshold that was asked for
};

/// Survivors: values above the threshold, and those equal to it with smaller ids than tie_end.
struct Survivors {
  Threshold from;
  int tie_end;
  Totals cut;  ///< that top_k drops of the values at the threshold
};

/// A shard's answer about a window.
struct Window {
  const ThresholdAnswer* answer;

  /// At most that of the shard's values from `key` on: that of the next point above.
  __device__ sharded::Measure at_least_so_much(std::int32_t key) const {
    const int below = first_below(key);
    return below == 0 ? answer->above : of(below - 1);
  }
  /// At least that, of keys above the window's low end: that of the next point below.
  __device__ sharded::Measure at_most_so_much(std::int32_t key) const {
    if (answer->complete != 0) return at_least_so_much(key);
    const int at = first_below(key + 1);  // points > key come before
    return at == static_cast<int>(answer->points) ? answer->at_least : of(at);
  }

 private:
  /// The first point with a key below; points fall.
  __device__ int first_below(std::int32_t key) const {
    int begin = 0;
    auto end = static_cast<int>(answer->points);
    while (begin < end) {
      const int middle = (begin + end) / 2;
      if (answer->point[middle].key >= key) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }
  __device__ sharded::Measure of(int point) const {
    sharded::Measure measure;
    measure.count = answer->point[point].count;
    measure.mass = answer->point[point].mass;
    return measure;
  }
};

class RowMerger {
 public:
  __device__ RowMerger(const ShardedTask& task, ShardedExchange exchange, std::int64_t number,
                       unsigned char* dynamic)
      : task_(task),
        exchange_(exchange),
        number_(number),
        state_(task.states[number]),
        shared_(*reinterpret_cast<Shared*>(dynamic)),
        arrays_(KnownArrays::at(dynamic + known_at(), task)),
        known_(task, arrays_, shared_.known),
        parameters_{task.temperature.at(number), task.top_k.at(number), task.top_p.at(number),
                    task.min_p.at(number)} {}

  __device__ void run() {
    if (task_.active.given() && task_.active.data[number_] == 0) {
      if (exchange_ == ShardedExchange::summary) fail(RowStatus::inactive);
      return;
    }
    if (exchange_ == ShardedExchange::summary) {
      asked_ = RowAsks::nothing;
      if (!ranks_agree()) return;
    } else {
      asked_ = state_.asks;
      if (!answers_came()) return;
    }
    __syncthreads();  // all have read what it asked
    if (exchange_ == ShardedExchange::tokens) {
      take_tokens();
      return;
    }
    if (exchange_ == ShardedExchange::summary && thread() == 0) {
      state_.found_count = 0;
      state_.tie_known = false;
    }
    const RowStatus status = merge_status();
    if (status != RowStatus::ok) {
      fail(status);
      return;
    }
    merge();
    decide();
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ const std::byte* summary(int shard) const {
    return task_.theirs(ShardedExchange::summary, shard, number_);
  }
  template <class T>
  __device__ const T& answer(ShardedExchange exchange, int shard) const {
    return *reinterpret_cast<const T*>(task_.theirs(exchange, shard, number_));
  }

  // --- What came

  __device__ bool ranks_agree() {
    bool agree = true;
    for (int shard = 0; shard < task_.shards; ++shard) {
      const auto& header =
          *reinterpret_cast<const sharded::BlockHeader*>(task_.receive[0] + shard * task_.bytes[0]);
      agree = agree && header.magic == sharded::kMagic && header.exchange == 0 &&
              header.fingerprint == task_.fingerprint;
    }
    if (!agree && thread() == 0) {
      atomicMin(task_.undecided, -1);
      state_.asks = RowAsks::nothing;
      if (task_.records != nullptr) task_.records[number_].status = RowStatus::inactive;
    }
    return agree;
  }

  __device__ bool answers_came() const {
    return exchange_ == ShardedExchange::tokens
               ? asked_ == RowAsks::tokens
               : asked_ == RowAsks::threshold || asked_ == RowAsks::tie;
  }

  /// The first fault of all shards, in the order of statuses. A row has no allowed token where no
  /// shard has one.
  __device__ RowStatus merge_status() const {
    constexpr int kLast = 1 << 16;
    int worst = kLast;
    bool any_allowed = false;
    for (int shard = 0; shard < task_.shards; ++shard) {
      const auto status = static_cast<RowStatus>(word_of(summary(shard), 0));
      if (status == RowStatus::ok) any_allowed = true;
      if (status == RowStatus::ok || status == RowStatus::no_allowed_token) continue;
      worst = ::min(worst, static_cast<int>(status));
    }
    if (worst < kLast) return static_cast<RowStatus>(worst);
    return any_allowed ? RowStatus::ok : RowStatus::no_allowed_token;
  }

  __device__ float cut_value(int id) const {
    int shard = 0;
    while (id >= task_.parts[shard].end) ++shard;
    const ShardPart& part = task_.parts[shard];
    const int place = id < part.whole_begin ? id - part.begin : part.head() + (id - part.whole_end);
    return std::bit_cast<float>(
        word_of(summary(shard), sizeof(RowSummary) + 4 * static_cast<std::size_t>(place)));
  }

  __device__ void merge() {
    rule_ = {logit_scale(parameters_.temperature == 0.0F ? 1.0F : parameters_.temperature), true};
    greedy_ = is_greedy(parameters_);
    top_k_ = top_k_is_on(parameters_.top_k, task_.vocab);
    filtered_ = !greedy_ && (parameters_.min_p > 0.0F || parameters_.top_p < 1.0F || top_k_);
    read_heads();
    const auto tiles = static_cast<int>(tiles_of(task_.vocab));
    if (filtered_) {
      for (int i = thread(); i < tiles; i += kEndThreads) arrays_.tile_max[i] = kEmptyTileKey;
    }
    __syncthreads();
    index_cut_tiles();
    __syncthreads();
    find_largest();
    weigh_shards();
    if (filtered_) read_candidates();
    __syncthreads();
    unfiltered_ = {0, 0};
    for (int shard = 0; shard < task_.shards; ++shard) {
      unfiltered_.count += shared_.heads[shard].allowed;
      unfiltered_.mass += shared_.whole[shard];
    }
    for (int tile = 0; tile < task_.cut_tiles; ++tile) {
      unfiltered_.mass += row_weight(shared_.cut[tile].sum, shared_.cut[tile].shift);
    }
    std::int32_t mine = 0;
    for (int i = thread(); i < task_.cut_total; i += kEndThreads) {
      mine += arrays_.key[known_.first_cut() + i] > kEmptyTileKey ? 1 : 0;
    }
    unfiltered_.count += static_cast<std::uint64_t>(reduce_block(mine, shared_.keys, Add{}));
    if (filtered_) known_.arrange(left_key_, rule_, max_key_);
  }

  __device__ void read_heads() {
    left_key_ = kEmptyTileKey;
    for (int shard = 0; shard < task_.shards; ++shard) {
      left_key_ =
          ::max(left_key_,
                static_cast<std::int32_t>(word_of(summary(shard), offsetof(RowSummary, left_key))));
    }
    if (thread() >= task_.shards) return;
    const std::byte* from = summary(thread());
    Head& head = shared_.heads[thread()];
    head.max_key = static_cast<std::int32_t>(word_of(from, offsetof(RowSummary, max_key)));
    head.first = {static_cast<std::int32_t>(word_of(from, offsetof(RowSummary, max_id))),
                  word_of(from, offsetof(RowSummary, max_bits))};
    head.allowed = word_of(from, offsetof(RowSummary, allowed));
    head.listed =
        ::min(static_cast<int>(word_of(from, offsetof(RowSummary, listed))), task_.candidates);
  }

  /// A warp a tile.
  __device__ void index_cut_tiles() {
    for (int tile = warp_of_thread(); tile < task_.cut_tiles; tile += kEndWarps) {
      const CutSpan& span = task_.cut[tile];
      float x[kLaneValues];
      std::int32_t key = kEmptyTileKey;
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        const int place = i * kWarp + lane_of_thread();
        x[i] = place < span.size ? cut_value(span.begin + place) : -INFINITY;
        key = ::max(key, order_key(x[i]));
        if (place >= span.size) continue;
        const int slot = known_.first_cut() + span.at + place;
        arrays_.key[slot] = order_key(x[i]);
        arrays_.id[slot] = span.begin + place;
      }
      key = __reduce_max_sync(kAllLanes, key);
      const TileWeights<false> weights(from_order_key(key), rule_);
      std::uint64_t sum = 0;
      int first = INT_MAX;
      std::uint32_t bits = 0;
#pragma unroll
      for (int i = kLaneValues - 1; i >= 0; --i) {
        if (key > kEmptyTileKey) {
          sum += weights.are_quick() ? weights.weigh(x[i]) : weights.weigh_slowly(x[i]);
        }
        if (order_key(x[i]) != key) continue;
        first = i * kWarp + lane_of_thread();
        bits = std::bit_cast<std::uint32_t>(x[i]);
      }
      sum = warp_sum_of_tile(sum);
      const int of_warp = __reduce_min_sync(kAllLanes, first);
      if (first != of_warp) continue;  // one lane goes on
      shared_.cut[tile] = {key, {span.begin + first, bits}, sum, -1};
      if (filtered_) arrays_.tile_max[span.begin / kTileSize] = key;
    }
  }

  __device__ void find_largest() {
    max_key_ = kEmptyTileKey;
    for (int shard = 0; shard < task_.shards; ++shard) {
      max_key_ = ::max(max_key_, shared_.heads[shard].max_key);
    }
    for (int tile = 0; tile < task_.cut_tiles; ++tile) {
      max_key_ = ::max(max_key_, shared_.cut[tile].key);
    }
    first_at_max_ = {INT_MAX, 0};
    const auto see = [this](std::int32_t key, const Known& first) {
      if (key == max_key_ && first.id < first_at_max_.id) first_at_max_ = first;
    };
    for (int shard = 0; shard < task_.shards; ++shard) {
      see(shared_.heads[shard].max_key, shared_.heads[shard].first);
    }
    for (int tile = 0; tile < task_.cut_tiles; ++tile) {
      see(shared_.cut[tile].key, shared_.cut[tile].first);
    }
    octave_ = octaves_of(from_order_key(max_key_), rule_.scale).whole;
    if (thread() != 0) return;
    state_.octave = octave_;
    state_.scale = rule_.scale;
    state_.max = from_order_key(max_key_);
  }

  /// A warp a shard; and what cut tiles are shifted by.
  __device__ void weigh_shards() {
    for (int shard = warp_of_thread(); shard < task_.shards; shard += kEndWarps) {
      const std::int32_t key = shared_.heads[shard].max_key;
      uint128_t mass = 0;
      if (key != kEmptyTileKey) {
        const double octave = octaves_of(from_order_key(key), rule_.scale).whole;
        for (int gap = lane_of_thread(); gap < kOctaveSums; gap += kWarp) {
          const int shift = row_shift(octave_, octave - static_cast<double>(gap));
          if (shift < 0) continue;
          mass +=
              read_sum(summary(shard), offsetof(RowSummary, octaves) +
                                           sizeof(sharded::Sum128) * static_cast<std::size_t>(gap))
              << shift;
        }
      }
      mass = reduce_warp(mass, Add{});
      if (lane_of_thread() == 0) shared_.whole[shard] = mass;
    }
    if (thread() < task_.cut_tiles) {
      CutTile& tile = shared_.cut[thread()];
      if (tile.key != kEmptyTileKey) {
        tile.shift = row_shift(octave_, octaves_of(from_order_key(tile.key), rule_.scale).whole);
      }
    }
  }

  __device__ void read_candidates() {
    const std::size_t list = sizeof(RowSummary) + 4 * static_cast<std::size_t>(task_.cut_values);
    for (int i = thread(); i < known_.first_cut(); i += kEndThreads) {
      const int shard = i / task_.candidates;
      const int place = i % task_.candidates;
      std::int32_t key = kEmptyTileKey;
      std::int32_t id = INT_MAX;
      if (place < shared_.heads[shard].listed) {
        const std::size_t at = list + sizeof(sharded::Candidate) * static_cast<std::size_t>(place);
        key = order_key(std::bit_cast<float>(word_of(summary(shard), at)));
        id = static_cast<std::int32_t>(word_of(summary(shard), at + 4));
      }
      arrays_.key[i] = key;
      arrays_.id[i] = id;
    }
  }

  // --- What survives

  __device__ void decide() {
    survivors_.tie_end = task_.vocab;
    survivors_.cut = {0, 0};
    if (greedy_) {
      const std::int32_t end = first_at_max_.id + 1;
      survivors_.from = {max_key_, {1, 0}, {0, 0}, Threshold::kOfKnown};
      survivors_.tie_end = end;
      for (int t = thread(); t < task_.num_samples; t += kEndThreads) {
        shared_.tokens[t] = {-1, first_at_max_.id, first_at_max_.bits, 0, {}};
      }
      finish(false);
      return;
    }
    if (thread() < task_.shards) shared_.cut_ties[thread()] = {};
    __syncthreads();
    if (!find_survivors()) return;
    const bool is_known = filtered_ && left_key_ < survivors_.from.key;
    bool asks = false;
    if (is_known) {
      draw_known();
    } else {
      asks = draw_by_parts();
    }
    finish(asks);
  }

  __device__ uint128_t value_of(By by, const Totals& totals) const {
    return by == By::count ? uint128_t{totals.count} : totals.mass;
  }

  __device__ bool find_survivors() {
    std::int32_t base = kLowest;
    if (parameters_.min_p > 0.0F) {
      base = smallest_key_kept<false>(parameters_.min_p, rule_.scale, kLowest, max_key_);
    }
    Survivors& survivors = survivors_;
    if (top_k_) {
      if (!find(By::count, static_cast<uint128_t>(parameters_.top_k), base, survivors.from)) {
        return false;
      }
    } else if (base > kLowest) {
      if (!measure(base, survivors.from)) return false;
    } else {
      survivors.from = {kLowest, unfiltered_, unfiltered_, Threshold::kEverything};
    }
    if (top_k_ && task_.tie_rule == TieRule::lowest_id) {
      if (!cut_ties(static_cast<std::uint64_t>(parameters_.top_k))) return false;
    }
    if (parameters_.top_p < 1.0F && survivors.from.key < max_key_) {
      if (!cut_to_nucleus(base)) return false;
    }
    return true;
  }

  __device__ bool cut_to_nucleus(std::int32_t base) {
    const uint128_t mass = survivors_.from.at_least.mass - survivors_.cut.mass;
    uint128_t measured = mass;
    if (task_.filter_order == FilterOrder::joint) {
      measured = unfiltered_.mass;
      if (base > kLowest) {
        Threshold of_base;
        if (!measure(base, of_base)) return false;
        measured = of_base.at_least.mass;
      }
    }
    const uint128_t target = nucleus_target(parameters_.top_p, measured);
    // Jointly, what top_k keeps may hold less than the nucleus needs: then all of it stays.
    if (mass < target) return true;
    Threshold end;
    if (!find(By::mass, target, survivors_.from.key, end)) return false;
    if (end.key > survivors_.from.key) {
      survivors_ = {end, task_.vocab, {0, 0}};
      __syncthreads();  // what was cut has been read
      if (thread() < task_.shards) shared_.cut_ties[thread()] = {};
      __syncthreads();
    }
    return true;
  }

  /// The largest value >= low_key from which on the row measures at least `target`; low_key where
  /// none does.
  __device__ bool find(By by, uint128_t target, std::int32_t low_key, Threshold& found) {
    const int size = known_.size();
    int place = size;
    if (by == By::mass) {
      place = known_.first_reaching(target);
    } else if (target <= static_cast<uint128_t>(size)) {
      place = static_cast<int>(target) - 1;
    }
    if (place < size && known_.key(place) >= low_key) {
      set_known(known_.key(place), found);
      return true;
    }
    if (left_key_ >= low_key) return find_below_known(by, target, low_key, left_key_, found);
    set_known(low_key, found);
    return true;
  }
  __device__ void set_known(std::int32_t key, Threshold& found) const {
    found = {key, known_.first(known_.reaching(key)), known_.first(known_.reaching(key + 1)),
             Threshold::kOfKnown};
  }

  /// The row from a key on, exactly.
  __device__ bool measure(std::int32_t key, Threshold& found) {
    if (left_key_ >= key) return find_below_known(By::count, kUnreachable, key, key, found);
    set_known(key, found);
    return true;
  }
  static constexpr uint128_t kUnreachable = ~uint128_t{0};

  __device__ void ask(RowAsks what) {
    if (thread() == 0) state_.asks = what;
    count_undecided();
  }
  /// A row is counted once, with the summary.
  __device__ void count_undecided() {
    if (exchange_ != ShardedExchange::summary || thread() != 0) return;
    atomicAdd(task_.undecided, 1);
    if (task_.records != nullptr) task_.records[number_].status = RowStatus::inactive;
  }

  /// As find(), where the answer is a value in [low_key, high_key], or low_key.
  __device__ __noinline__ bool find_below_known(By by, uint128_t target, std::int32_t low_key,
                                                std::int32_t high_key, Threshold& found) {
    const int number = series_++;
    if (number < state_.found_count) {
      total(number, found);
      return true;
    }
    if (asked_ == RowAsks::threshold && !answers_used_) {
      answers_used_ = true;
      low_key = state_.low_key;
      high_key = state_.high_key;
      if (narrow(by, target, low_key, high_key, number)) {
        total(number, found);
        return true;
      }
    }
    __syncthreads();  // the window has been read
    if (thread() == 0) {
      state_.low_key = low_key;
      state_.high_key = high_key;
    }
    ask(RowAsks::threshold);
    return false;
  }

  /// A threshold that was asked for, of the whole row.
  __device__ void total(int number, Threshold& found) const {
    const FoundThreshold& kept = state_.found[number];
    found = {kept.key, known_.cut_from(kept.key), known_.cut_from(kept.key + 1), number};
    for (int shard = 0; shard < task_.shards; ++shard) {
      found.at_least.count += kept.at_least.of[shard].count;
      found.at_least.mass += kept.at_least.of[shard].mass.value();
      found.above.count += kept.above.of[shard].count;
      found.above.mass += kept.above.of[shard].mass.value();
    }
  }

  /// True where the answers decide: the threshold is kept as the row's with that number. Else the
  /// window has become smaller.
  __device__ bool narrow(By by, uint128_t target, std::int32_t& low_key, std::int32_t& high_key,
                         int number) {
    bool complete = true;
    for (int shard = 0; shard < task_.shards; ++shard) {
      complete =
          complete && answer<ThresholdAnswer>(ShardedExchange::threshold, shard).complete != 0;
    }
    std::int32_t reaches = INT_MIN;  // the largest key whose lower bound reaches the target
    std::int32_t misses = INT_MAX;   // the smallest whose upper bound misses it
    const int points = task_.shards * sharded::kPoints;
    for (int i = thread(); i < points + task_.cut_total; i += kEndThreads) {
      std::int32_t key = low_key;
      if (i < points) {
        const auto& named =
            answer<ThresholdAnswer>(ShardedExchange::threshold, i / sharded::kPoints);
        const int point = i % sharded::kPoints;
        if (point < static_cast<int>(named.points)) key = named.point[point].key;
      } else {
        const std::int32_t of_cut = known_.key_of(known_.first_cut() + i - points);
        if (of_cut > low_key && of_cut <= high_key) key = of_cut;
      }
      if (key == low_key) continue;
      const Totals of_cut = known_.cut_from(key);
      Totals lower = of_cut;
      Totals upper = of_cut;
      for (int shard = 0; shard < task_.shards; ++shard) {
        const Window window{&answer<ThresholdAnswer>(ShardedExchange::threshold, shard)};
        add(lower, window.at_least_so_much(key));
        add(upper, window.at_most_so_much(key));
      }
      if (value_of(by, lower) >= target) reaches = ::max(reaches, key);
      if (value_of(by, upper) < target) misses = ::min(misses, key);
    }
    reaches = reduce_block(reaches, shared_.keys, Maximum{});
    misses = reduce_block(misses, shared_.keys, Minimum{});
    if (!complete) {
      if (misses < INT_MAX) high_key = misses - 1;
      if (reaches > INT_MIN) low_key = reaches;
      return false;
    }
    FoundThreshold& kept = state_.found[number];
    const std::int32_t key = reaches > INT_MIN ? reaches : low_key;
    if (thread() < task_.shards) {
      const Window window{&answer<ThresholdAnswer>(ShardedExchange::threshold, thread())};
      kept.at_least.of[thread()] =
          key == low_key ? window.answer->at_least : window.at_least_so_much(key);
      kept.above.of[thread()] = window.at_least_so_much(key + 1);
    }
    if (thread() == 0) {
      kept.key = key;
      state_.found_count = number + 1;
    }
    __syncthreads();
    return true;
  }
  __device__ static void add(Totals& sum, const sharded::Measure& measure) {
    sum.count += measure.count;
    sum.mass += measure.mass.value();
  }

  /// Of the values at the threshold only the first stay, in the order of ids, so that `wanted` do.
  /// By all threads alike.
  __device__ __noinline__ bool cut_ties(std::uint64_t wanted) {
    const Threshold& from = survivors_.from;
    if (from.at_least.count <= wanted) return true;
    std::uint64_t left = wanted - from.above.count;
    bool found = false;
    for (int number = 0; number < task_.row_part_count; ++number) {
      const RowPart& part = task_.row_parts[number];
      const bool is_cut_tile = part.shard < 0;
      if (!is_cut_tile && from.found != Threshold::kOfKnown) {
        if (!cut_ties_of_shard(part.shard, left, found)) return false;
        continue;
      }
      const int first =
          is_cut_tile ? known_.first_cut() + task_.cut[part.cut].at : known_.first_of(part.shard);
      const int size = is_cut_tile ? task_.cut[part.cut].size : known_.above_of(part.shard);
      for (int place = first; place < first + size; ++place) {
        if (known_.key_of(place) != from.key) continue;
        if (found) {
          ++survivors_.cut.count;
          survivors_.cut.mass += known_.weight_of(place);
        } else if (--left == 0) {
          found = true;
          survivors_.tie_end = known_.id_of(place) + 1;
        }
      }
    }
    return true;
  }

  /// The same, of a shard whose values at the threshold are not known one by one.
  __device__ bool cut_ties_of_shard(int shard, std::uint64_t& left, bool& found) {
    const FoundThreshold& kept = state_.found[survivors_.from.found];
    const std::uint64_t ties = kept.at_least.of[shard].count - kept.above.of[shard].count;
    sharded::Measure cut{};
    if (found) {
      cut.count = ties;
      cut.mass = kept.at_least.of[shard].mass.value() - kept.above.of[shard].mass.value();
    } else if (ties >= left) {
      if (asked_ == RowAsks::tie && !state_.tie_known) {
        const sharded::TieAnswer came =
            answer<sharded::TieAnswer>(ShardedExchange::threshold, shard);
        __syncthreads();
        if (thread() == 0) {
          state_.tie_answer = came;
          state_.tie_known = true;
        }
        __syncthreads();
      }
      if (!state_.tie_known) {
        if (thread() == 0) {
          state_.tie.key = survivors_.from.key;
          state_.tie.shard = shard;
          state_.tie.nth = left;
        }
        ask(RowAsks::tie);
        return false;
      }
      found = true;
      survivors_.tie_end = state_.tie_answer.id + 1;
      cut.count = ties - left;
      cut.mass = state_.tie_answer.after;
    } else {
      left -= ties;
    }
    if (thread() == 0) shared_.cut_ties[shard] = cut;
    survivors_.cut.count += cut.count;
    survivors_.cut.mass += cut.mass.value();
    return true;
  }

  // --- Tokens

  __device__ std::uint64_t word_of_sample(int sample) const {
    const auto index = static_cast<std::uint32_t>(
        task_.seed.is_array() ? sample : number_ * task_.num_samples + sample);
    return random_word(task_.seed.at(number_), task_.offset.at(number_), task_.purpose, index);
  }

  /// All survivors are known: the first of the order.
  __device__ void draw_known() {
    const auto kept = static_cast<int>(survivors_.from.at_least.count - survivors_.cut.count);
    const uint128_t total = known_.first(kept).mass;
    for (int t = thread(); t < task_.num_samples; t += kEndThreads) {
      shared_.tokens[t] = {-1, -1, 0, 0, multiply_high(word_of_sample(t), total)};
    }
    __syncthreads();
    for (int i = thread(); i < kept; i += kEndThreads) {
      const int place = known_.place(i);
      const std::int32_t id = known_.id_of(place);
      uint128_t before = 0;
      for (int j = 0; j < kept; ++j) {
        const int other = known_.place(j);
        if (known_.id_of(other) < id) before += known_.weight_of(other);
      }
      const uint128_t upto = before + known_.weight_of(place);
      for (int t = 0; t < task_.num_samples; ++t) {
        const uint128_t position = shared_.tokens[t].place.value();
        if (position < before || position >= upto) continue;
        shared_.tokens[t].id = id;
        shared_.tokens[t].bits = std::bit_cast<std::uint32_t>(from_order_key(known_.key_of(place)));
      }
    }
  }

  __device__ bool survives(std::int32_t key, std::int32_t id) const {
    return key > survivors_.from.key || (key == survivors_.from.key && id < survivors_.tie_end);
  }

  /// Weight of a value of a cut tile, if it survives.
  __device__ uint128_t cut_weight(const CutTile& tile, int place) const {
    const std::int32_t key = known_.key_of(place);
    if (key == kEmptyTileKey || !survives(key, known_.id_of(place))) return 0;
    return RowWeigher<false>(rule_, max_key_)(from_order_key(key), tile.key);
  }

  /// Whether a shard is asked for a token.
  __device__ __noinline__ bool draw_by_parts() {
    __syncthreads();  // what was cut has been written
    for (int number = warp_of_thread(); number < task_.row_part_count; number += kEndWarps) {
      const RowPart& part = task_.row_parts[number];
      uint128_t mass = 0;
      if (part.shard < 0) {
        const CutSpan& span = task_.cut[part.cut];
        for (int i = lane_of_thread(); i < span.size; i += kWarp) {
          mass += cut_weight(shared_.cut[part.cut], known_.first_cut() + span.at + i);
        }
        mass = reduce_warp(mass, Add{});
      } else {
        mass = survivors_.from.found == Threshold::kEverything
                   ? shared_.whole[part.shard]
                   : state_.found[survivors_.from.found].at_least.of[part.shard].mass.value();
        mass -= shared_.cut_ties[part.shard].mass.value();
      }
      if (lane_of_thread() == 0) shared_.part_mass[number] = mass;
    }
    __syncthreads();
    const uint128_t total = survivors_.from.at_least.mass - survivors_.cut.mass;
    bool asks = false;
    for (int t = thread(); t < task_.num_samples; t += kEndThreads) {
      shared_.tokens[t] = token_at(multiply_high(word_of_sample(t), total));
      asks = asks || shared_.tokens[t].shard >= 0;
    }
    return __syncthreads_or(asks ? 1 : 0) != 0;
  }

  __device__ ShardedToken token_at(uint128_t position) const {
    int number = 0;
    while (number < task_.row_part_count && position >= shared_.part_mass[number]) {
      position -= shared_.part_mass[number++];
    }
    // Of blocks that were not right: masses do not add up.
    if (number == task_.row_part_count) return {-1, -1, 0, 0, {}};
    const RowPart& part = task_.row_parts[number];
    if (part.shard >= 0) return {part.shard, -1, 0, 0, position};
    const int first = known_.first_cut() + task_.cut[part.cut].at;
    int place = first;
    for (; place + 1 < first + task_.cut[part.cut].size; ++place) {
      const uint128_t weight = cut_weight(shared_.cut[part.cut], place);
      if (position < weight) break;
      position -= weight;
    }
    return {-1,
            known_.id_of(place),
            std::bit_cast<std::uint32_t>(from_order_key(known_.key_of(place))),
            0,
            {}};
  }

  // --- Results

  /// The row's survivors are known, and where its tokens are.
  __device__ void finish(bool asks) {
    __syncthreads();
    const bool waits = asked_ != RowAsks::nothing;
    if (thread() == 0) {
      const bool all = survivors_.from.key == kLowest && survivors_.tie_end == task_.vocab;
      state_.asks = asks ? RowAsks::tokens : RowAsks::nothing;
      state_.low = survivors_.from.key;
      state_.tie_end = survivors_.tie_end;
      state_.all_survive = all;
      state_.support_size =
          static_cast<std::int32_t>(survivors_.from.at_least.count - survivors_.cut.count);
      state_.unfiltered = unfiltered_.mass;
      state_.survivors = survivors_.from.at_least.mass - survivors_.cut.mass;
    }
    if (asks) {
      for (int t = thread(); t < task_.num_samples; t += kEndThreads) {
        task_.drawn[number_ * task_.num_samples + t] = shared_.tokens[t];
      }
      count_undecided();
      return;
    }
    __syncthreads();
    write_row(waits);
    for (int t = thread(); t < task_.num_samples; t += kEndThreads) {
      write_token(t, {shared_.tokens[t].id, shared_.tokens[t].bits});
    }
  }

  /// Tokens that were asked for have come.
  __device__ void take_tokens() {
    write_row(true);
    for (int t = thread(); t < task_.num_samples; t += kEndThreads) {
      const ShardedToken& token = task_.drawn[number_ * task_.num_samples + t];
      Known known{token.id, token.bits};
      if (token.shard >= 0) {
        const auto* drawn = &answer<sharded::DrawnToken>(ShardedExchange::tokens, token.shard) + t;
        known = {drawn->id, drawn->bits};
      }
      write_token(t, known);
    }
  }

  /// By all threads, when the state is written.
  __device__ void write_row(bool has_waited) {
    if (thread() != 0) return;
    if (has_waited) atomicAdd(task_.undecided, -1);
    state_.asks = RowAsks::nothing;
    if (task_.statuses != nullptr) task_.statuses[number_] = RowStatus::ok;
    if (task_.support_size != nullptr) task_.support_size[number_] = state_.support_size;
    if (task_.records == nullptr) return;
    const ShardPart& mine = task_.parts[task_.shard];
    const int end = ::min(::max(state_.tie_end, mine.begin), mine.end) - mine.begin;
    std::int32_t greedy_token = -1;
    if (is_greedy(parameters_)) {  // one of another shard is none of this one's
      const int token = state_.tie_end - 1;
      greedy_token = token >= mine.begin && token < mine.end ? token - mine.begin : INT_MAX;
    }
    task_.records[number_] = {
        RowStatus::ok,        greedy_token,         state_.max, from_order_key(state_.low), end, 0,
        state_.survivors.low, state_.survivors.high};
  }

  __device__ void write_token(int sample, const Known& token) const {
    const std::int64_t at = number_ * task_.num_samples + sample;
    task_.tokens[at] = token.id;
    const auto x = std::bit_cast<float>(token.bits);
    const float divisor = parameters_.temperature == 0.0F ? 1.0F : parameters_.temperature;
    if (task_.logprob != nullptr) {
      const double log_mass = log_mass_of(state_.unfiltered.value(), state_.max, state_.scale);
      task_.logprob[at] = static_cast<float>(log_probability(x, state_.max, divisor, log_mass));
    }
    if (task_.logprob_filtered != nullptr) {
      const double log_mass = is_greedy(parameters_)
                                  ? 0.0
                                  : log_mass_of(state_.survivors.value(), state_.max, state_.scale);
      task_.logprob_filtered[at] =
          static_cast<float>(log_probability(x, state_.max, divisor, log_mass));
    }
  }

  __device__ void fail(RowStatus status) {
    for (int t = thread(); t < task_.num_samples; t += kEndThreads) {
      const std::int64_t at = number_ * task_.num_samples + t;
      task_.tokens[at] = -1;
      if (task_.logprob != nullptr) task_.logprob[at] = -CUDART_INF_F;
      if (task_.logprob_filtered != nullptr) task_.logprob_filtered[at] = -CUDART_INF_F;
    }
    if (thread() != 0) return;
    state_.asks = RowAsks::nothing;
    if (task_.statuses != nullptr) task_.statuses[number_] = status;
    if (task_.support_size != nullptr) task_.support_size[number_] = 0;
    if (task_.records != nullptr) task_.records[number_] = {status, -1, 0, 0, 0, 0, 0, 0};
  }

  const ShardedTask& task_;
  ShardedExchange exchange_;
  std::int64_t number_;
  ShardedRowState& state_;
  Shared& shared_;
  KnownArrays arrays_;
  KnownValues known_;
  RowParameters parameters_;

  RowAsks asked_ = RowAsks::nothing;
  bool answers_used_ = false;
  int series_ = 0;
  TileRule rule_{};
  bool greedy_ = false, top_k_ = false, filtered_ = false;
  std::int32_t left_key_ = kEmptyTileKey, max_key_ = kEmptyTileKey;
  double octave_ = 0;
  Known first_at_max_{};
  Totals unfiltered_{};
  Survivors survivors_{};
};

__global__ void __launch_bounds__(kEndThreads)
    merge_rows_kernel(const __grid_constant__ ShardedTask task, ShardedExchange exchange, int) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  RowMerger(task, exchange, blockIdx.x, dynamic).run();
}

}  // namespace

cudaError_t merge_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream) {
  const SpreadNeeds needs{[&task](int) { return known_at() + KnownArrays::bytes(task); }, false};
  return launch_spread<merge_rows_kernel>(task.rows(), {1, kEndThreads}, needs, stream, task,
                                          exchange);
}

}  // namespace fairdraw::cuda
