// Finds the survivors of a row's filters among the known values of the row, in the same steps as
// sharded/merged_survivors.cpp.
//
// Every thread by itself finds each threshold, by binary search over prefix sums. If a threshold is
// below the known values, the row has to be gathered (gather_rows.cu).
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/sharded/merged_row.cuh"
#include "cuda/tiles/min_p_key.cuh"

namespace fairdraw::cuda {

/// Key of a filter's threshold, with the number and the weight of the values whose keys are at
/// least this key.
struct Threshold {
  std::int32_t key;
  Totals at_least;
};

/// Survivors of the filters: the values above the threshold, and the values equal to the threshold
/// with ids below tie_end.
struct Survivors {
  Threshold from;
  int tie_end;
  Totals cut;  ///< number and weight of the values at the threshold that top_k drops
};

template <bool kFromProbs>
class RowThresholds {
  using Row = MergedRow<kFromProbs>;

 public:
  /// Key of the smallest finite float; for probabilities, key of the smallest float above 0. No
  /// allowed value has a smaller key.
  static constexpr std::int32_t kLowest = kFromProbs ? 1 : kEmptyTileKey + 1;

  __device__ explicit RowThresholds(const ShardedTask& task) : task_(task) {}

  /// Finds the survivors. The function returns false if the known values do not determine the
  /// survivors. All threads must call this function.
  __device__ __forceinline__ bool find_survivors(const Row& row) {
    survivors_.tie_end = task_.vocab;
    survivors_.cut = {0, 0};
    std::int32_t base = kLowest;
    if (row.parameters().min_p > 0.0F) {
      base = smallest_key_kept<kFromProbs>(row.parameters().min_p, row.rule().scale, kLowest,
                                           row.max_key());
    }
    min_p_drops_ = base > kLowest;
    Threshold& from = survivors_.from;
    if (row.has_top_k()) {
      if (!find(row, By::count, static_cast<uint128_t>(row.parameters().top_k), base, from)) {
        return false;
      }
    } else if (base > kLowest) {
      if (!measure(row, base, from)) return false;
    } else {
      from = {kLowest, row.unfiltered()};
    }
    const auto wanted = static_cast<std::uint64_t>(row.parameters().top_k);
    if (row.has_top_k() && task_.tie_rule == TieRule::lowest_id && from.at_least.count > wanted) {
      cut_ties(row, wanted);
    }
    if (row.parameters().top_p < 1.0F && from.key < row.max_key()) return cut_to_nucleus(row, base);
    return true;
  }

  /// Sets the survivors of a row that was gathered and filtered as a whole row.
  __device__ void take(const RowRecord& record, std::int32_t support_size) {
    const Totals all{static_cast<std::uint64_t>(support_size), record.weight()};
    survivors_ = {{order_key(record.low), all}, record.tie_end, {0, 0}};
  }

  __device__ const Survivors& survivors() const { return survivors_; }
  /// Returns whether min_p may drop a value of the row.
  __device__ bool min_p_drops() const { return min_p_drops_; }

 private:
  enum class By { count, mass };

  __device__ __forceinline__ bool cut_to_nucleus(const Row& row, std::int32_t base) {
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
    // If the filters apply in joint order, top_k may keep less mass than the nucleus needs; then
    // top_p drops nothing.
    if (mass < target) return true;
    Threshold end;
    if (!find(row, By::mass, target, survivors_.from.key, end)) return false;
    if (end.key > survivors_.from.key) survivors_ = {end, task_.vocab, {0, 0}};
    return true;
  }

  /// Finds the largest value >= low_key such that the values that are at least as large have a
  /// measure of at least `target`, where the measure is their number or their weight. If there is
  /// no such value, the result is low_key. Returns false if the known values do not determine the
  /// result.
  __device__ __forceinline__ bool find(const Row& row, By by, uint128_t target,
                                       std::int32_t low_key, Threshold& found) const {
    const int size = row.known().size();
    int place = size;
    if (by == By::mass) {
      place = row.known().first_reaching(target);
    } else if (target <= static_cast<uint128_t>(size)) {
      place = static_cast<int>(target) - 1;
    }
    std::int32_t key = low_key;
    if (place < size && row.known().key(place) >= low_key) {
      key = row.known().key(place);
    } else if (row.left_key() >= low_key) {
      return false;
    }
    found = {key, row.known().first(row.known().reaching(key))};
    return true;
  }

  /// Finds the exact number and weight of the row's values whose keys are at least `key`.
  __device__ __forceinline__ bool measure(const Row& row, std::int32_t key,
                                          Threshold& found) const {
    return find(row, By::count, kUnreachable, key, found);
  }
  static constexpr uint128_t kUnreachable = ~uint128_t{0};

  /// Cuts ties: of the values at the threshold, only those with the lowest ids survive, so that
  /// `wanted` tokens survive in total.
  __device__ __forceinline__ void cut_ties(const Row& row, std::uint64_t wanted) {
    const Totals& all = survivors_.from.at_least;
    const auto kept = static_cast<int>(wanted);
    survivors_.tie_end = row.known().id_of(row.known().place(kept - 1)) + 1;
    survivors_.cut = {all.count - wanted, all.mass - row.known().first(kept).mass};
  }

  const ShardedTask& task_;
  Survivors survivors_{};
  bool min_p_drops_ = false;
};

}  // namespace fairdraw::cuda
