// Which values of a row survive its filters, and what the row asks where they are not known
// (sharded/merged_survivors.cpp, step by step).
//
// A threshold among known values is a binary search over prefix sums, by every thread for itself.
// Below, the row asks about a window. When answers come everything is run again from its start:
// thresholds that were found are kept in the row's state, in the order in which they are asked for,
// which is always the same. Candidates for a threshold, the points that shards name and the values
// of cut tiles, are measured by a thread each.
#pragma once

#include <climits>
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/sharded/merged_row.cuh"
#include "cuda/tiles/min_p_key.cuh"

namespace fairdraw::cuda {

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
struct ThresholdWindow {
  const sharded::ThresholdAnswer* answer;

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

/// By one thread: a row that asks for the first time, with the summary, is counted.
__device__ inline void count_if_new(const ShardedTask& task, ShardedExchange exchange,
                                    std::int64_t number) {
  if (exchange != ShardedExchange::summary) return;
  atomicAdd(task.undecided, 1);
  if (task.records != nullptr) task.records[number].status = RowStatus::inactive;
}

/// In shared memory.
struct RowThresholdsMemory {
  sharded::Measure cut_ties[kMaxDeviceShards];  ///< that top_k drops, of whole tiles
};

template <bool kFromProbs>
class RowThresholds {
  using Row = MergedRow<kFromProbs>;
  using ThresholdAnswer = sharded::ThresholdAnswer;
  using Window = ThresholdWindow;

 public:
  /// The key of the smallest float, of probabilities above 0: no allowed value is below.
  static constexpr std::int32_t kLowest = kFromProbs ? 1 : kEmptyTileKey + 1;

  using Memory = RowThresholdsMemory;

  /// asked: what the row asked before this exchange.
  __device__ RowThresholds(const ShardedTask& task, const ReceivedBlocks& blocks,
                           ShardedExchange exchange, std::int64_t number, RowAsks asked,
                           ShardedRowState& state, Memory& memory)
      : task_(task),
        blocks_(blocks),
        exchange_(exchange),
        number_(number),
        asked_(asked),
        state_(state),
        memory_(memory) {}

  /// False where the row asks something. By all threads.
  __device__ bool find_survivors(const Row& row) {
    if (thread() < task_.shards) memory_.cut_ties[thread()] = {};
    __syncthreads();
    survivors_.tie_end = task_.vocab;
    survivors_.cut = {0, 0};
    std::int32_t base = kLowest;
    if (row.parameters().min_p > 0.0F) {
      base = smallest_key_kept<kFromProbs>(row.parameters().min_p, row.rule().scale, kLowest,
                                           row.max_key());
    }
    Survivors& survivors = survivors_;
    if (row.has_top_k()) {
      if (!find(row, By::count, static_cast<uint128_t>(row.parameters().top_k), base,
                survivors.from)) {
        return false;
      }
    } else if (base > kLowest) {
      if (!measure(row, base, survivors.from)) return false;
    } else {
      survivors.from = {kLowest, row.unfiltered(), row.unfiltered(), Threshold::kEverything};
    }
    const auto wanted = static_cast<std::uint64_t>(row.parameters().top_k);
    if (row.has_top_k() && task_.tie_rule == TieRule::lowest_id &&
        survivors.from.at_least.count > wanted) {
      if (!copied_cut_ties(row, wanted)) return false;
    }
    if (row.parameters().top_p < 1.0F && survivors.from.key < row.max_key()) {
      if (!cut_to_nucleus(row, base)) return false;
    }
    return true;
  }

  __device__ const Survivors& survivors() const { return survivors_; }
  /// The mass of survivors among a shard's whole tiles; of a row whose survivors are not all known.
  /// After a barrier.
  __device__ uint128_t mass_of_shard(const Row& row, int shard) const {
    const uint128_t mass =
        survivors_.from.found == Threshold::kEverything
            ? row.whole(shard)
            : state_.found[survivors_.from.found].at_least.of[shard].mass.value();
    return mass - memory_.cut_ties[shard].mass.value();
  }

 private:
  enum class By { count, mass };

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  template <class T>
  __device__ const T& answer(ShardedExchange exchange, int shard) const {
    return *reinterpret_cast<const T*>(blocks_.row(exchange, shard, number_));
  }
  __device__ static uint128_t value_of(By by, const Totals& totals) {
    return by == By::count ? uint128_t{totals.count} : totals.mass;
  }

  __device__ bool cut_to_nucleus(const Row& row, std::int32_t base) {
    const uint128_t mass = survivors_.from.at_least.mass - survivors_.cut.mass;
    uint128_t measured = mass;
    if (task_.filter_order == FilterOrder::joint) {
      measured = row.unfiltered().mass;
      if (base > kLowest) {
        Threshold of_base;
        if (!measure(row, base, of_base)) return false;
        measured = of_base.at_least.mass;
      }
    }
    const uint128_t target = nucleus_target(row.parameters().top_p, measured);
    // Jointly, what top_k keeps may hold less than the nucleus needs: then all of it stays.
    if (mass < target) return true;
    Threshold end;
    if (!find(row, By::mass, target, survivors_.from.key, end)) return false;
    if (end.key > survivors_.from.key) {
      survivors_ = {end, task_.vocab, {0, 0}};
      __syncthreads();  // what was cut has been read
      if (thread() < task_.shards) memory_.cut_ties[thread()] = {};
      __syncthreads();
    }
    return true;
  }

  /// The largest value >= low_key from which on the row measures at least `target`; low_key where
  /// none does.
  __device__ __forceinline__ bool find(const Row& row, By by, uint128_t target,
                                       std::int32_t low_key, Threshold& found) {
    const int size = row.known().size();
    int place = size;
    if (by == By::mass) {
      place = row.known().first_reaching(target);
    } else if (target <= static_cast<uint128_t>(size)) {
      place = static_cast<int>(target) - 1;
    }
    if (place < size && row.known().key(place) >= low_key) {
      set_known(row, row.known().key(place), found);
      return true;
    }
    if (row.left_key() >= low_key) {
      return copied_below_known(row, by, target, low_key, row.left_key(), found);
    }
    set_known(row, low_key, found);
    return true;
  }
  __device__ __forceinline__ void set_known(const Row& row, std::int32_t key,
                                            Threshold& found) const {
    found = {key, row.known().first(row.known().reaching(key)),
             row.known().first(row.known().reaching(key + 1)), Threshold::kOfKnown};
  }

  /// The row from a key on, exactly.
  __device__ __forceinline__ bool measure(const Row& row, std::int32_t key, Threshold& found) {
    if (row.left_key() >= key) {
      return copied_below_known(row, By::count, kUnreachable, key, key, found);
    }
    set_known(row, key, found);
    return true;
  }
  static constexpr uint128_t kUnreachable = ~uint128_t{0};

  __device__ void ask(RowAsks what) {
    if (thread() != 0) return;
    state_.asks = what;
    count_if_new(task_, exchange_, number_);
  }

  // What a function is called on lies in local memory, wherever it is used. So the few rows that
  // ask something or cut ties are copied for it, and all others stay in registers.

  __device__ __forceinline__ bool copied_below_known(const Row& row, By by, uint128_t target,
                                                     std::int32_t low_key, std::int32_t high_key,
                                                     Threshold& found) {
    const Row row_copy(row);
    RowThresholds copy(*this);
    Threshold below{};
    const bool is_known = copy.find_below_known(row_copy, by, target, low_key, high_key, below);
    series_ = copy.series_;
    answers_used_ = copy.answers_used_;
    found = below;
    return is_known;
  }
  __device__ __forceinline__ bool copied_cut_ties(const Row& row, std::uint64_t wanted) {
    const Row row_copy(row);
    RowThresholds copy(*this);
    const bool is_known = copy.cut_ties(row_copy, wanted);
    survivors_ = copy.survivors_;
    return is_known;
  }

  /// As find(), where the answer is a value in [low_key, high_key], or low_key.
  __device__ __noinline__ bool find_below_known(const Row& row, By by, uint128_t target,
                                                std::int32_t low_key, std::int32_t high_key,
                                                Threshold& found) {
    const int number = series_++;
    if (number < state_.found_count) {
      total(row, number, found);
      return true;
    }
    if (asked_ == RowAsks::threshold && !answers_used_) {
      answers_used_ = true;
      low_key = state_.low_key;
      high_key = state_.high_key;
      if (narrow(row, by, target, low_key, high_key, number)) {
        total(row, number, found);
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
  __device__ void total(const Row& row, int number, Threshold& found) const {
    const FoundThreshold& kept = state_.found[number];
    found = {kept.key, row.known().cut_from(kept.key), row.known().cut_from(kept.key + 1), number};
    for (int shard = 0; shard < task_.shards; ++shard) {
      found.at_least.count += kept.at_least.of[shard].count;
      found.at_least.mass += kept.at_least.of[shard].mass.value();
      found.above.count += kept.above.of[shard].count;
      found.above.mass += kept.above.of[shard].mass.value();
    }
  }

  /// True where the answers decide: the threshold is kept as the row's with that number. Else the
  /// window has become smaller.
  __device__ bool narrow(const Row& row, By by, uint128_t target, std::int32_t& low_key,
                         std::int32_t& high_key, int number) {
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
        const std::int32_t of_cut = row.known().key_of(row.known().first_cut() + i - points);
        if (of_cut > low_key && of_cut <= high_key) key = of_cut;
      }
      if (key == low_key) continue;
      const Totals of_cut = row.known().cut_from(key);
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
    reaches = reduce_block(reaches, row.scratch(), Maximum{});
    misses = reduce_block(misses, row.scratch(), Minimum{});
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
  __device__ __noinline__ bool cut_ties(const Row& row, std::uint64_t wanted) {
    const Threshold& from = survivors_.from;
    std::uint64_t left = wanted - from.above.count;
    bool found = false;
    for (int number = 0; number < task_.row_part_count; ++number) {
      const RowPart& part = task_.row_parts[number];
      const bool is_cut_tile = part.shard < 0;
      if (!is_cut_tile && from.found != Threshold::kOfKnown) {
        if (!cut_ties_of_shard(row, part.shard, left, found)) return false;
        continue;
      }
      const int first = is_cut_tile ? row.known().first_cut() + task_.cut[part.cut].at
                                    : row.known().first_of(part.shard);
      const int size = is_cut_tile ? task_.cut[part.cut].size : row.known().above_of(part.shard);
      for (int place = first; place < first + size; ++place) {
        if (row.known().key_of(place) != from.key) continue;
        if (found) {
          ++survivors_.cut.count;
          survivors_.cut.mass += row.known().weight_of(place);
        } else if (--left == 0) {
          found = true;
          survivors_.tie_end = row.known().id_of(place) + 1;
        }
      }
    }
    return true;
  }

  /// The same, of a shard whose values at the threshold are not known one by one.
  __device__ bool cut_ties_of_shard(const Row& row, int shard, std::uint64_t& left, bool& found) {
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
    if (thread() == 0) memory_.cut_ties[shard] = cut;
    survivors_.cut.count += cut.count;
    survivors_.cut.mass += cut.mass.value();
    return true;
  }

  const ShardedTask& task_;
  ReceivedBlocks blocks_;
  ShardedExchange exchange_;
  std::int64_t number_;
  RowAsks asked_;
  ShardedRowState& state_;
  Memory& memory_;
  bool answers_used_ = false;
  int series_ = 0;
  Survivors survivors_{};
};

}  // namespace fairdraw::cuda
