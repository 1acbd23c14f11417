#include "cpu/selection.h"

#include <algorithm>
#include <limits>

#include "common/float_order.h"

namespace fairdraw::cpu {
namespace {

/// Length up to which a list is bisected without being cut, because a pass over such a list costs
/// less than a cut.
constexpr std::size_t kShortList = 128;
constexpr int kStepsPerCut = 3;
/// Longer lists of weights are cut after two interpolated pivots, one on each side of the answer:
/// the second pivot is beyond the expected answer by kBeyond of the bracket.
constexpr std::size_t kLongList = 1024;
constexpr double kBeyond = 1.0 / 32;
constexpr auto kTile = static_cast<std::size_t>(kTileSize);

std::int32_t midpoint_above(std::int32_t low, std::int32_t high) {
  const std::int64_t sum = static_cast<std::int64_t>(low) + high + 1;
  return static_cast<std::int32_t>(sum >> 1);  // the sum is rounded up, so that low < middle <=
                                               // high
}

/// List that becomes shorter during a search, with the bracket of keys that contains the answer.
/// The type Sum is that of the measure.
template <class Sum>
struct Search {
  const Passes& passes;
  const float* values;
  std::size_t n;
  std::int32_t low_key, high_key;
  Sum above = 0;           // measure of the values above the bracket of the list
  Sum above_high = 0;      // measure of the listed values above high_key
  bool low_moved = false;  // whether the last step moved low_key instead of high_key
  int buffer = 0;

  /// Narrows the bracket to the values in the list, so that equal values end the search at once.
  void tighten() {
    if (n == 0) return;
    const Range range = passes.range(values, n);
    const std::int32_t least = order_key(range.min);
    const std::int32_t largest = order_key(range.max);
    if (least > low_key && least <= high_key) low_key = least;
    if (largest < high_key && largest >= low_key) high_key = largest;
  }

  /// Moves one end of the bracket to `key`. `measured` is the measure of the listed values whose
  /// keys are at least `key`.
  void step(std::int32_t key, Sum measured, Sum target) {
    low_moved = above + measured >= target;
    if (low_moved) {
      low_key = key;
    } else {
      high_key = key - 1;
      above_high = measured;
    }
  }

  void cut(SelectionScratch& scratch) {
    std::vector<float>& kept = scratch.values[buffer];
    buffer ^= 1;
    reserve_with_slack(kept, n);
    n = passes.collect_many(values, n, from_order_key(low_key), from_order_key(high_key),
                            kept.data());
    values = kept.data();
    above += above_high;
    above_high = 0;
    tighten();
  }
};

/// Returns the key at which the missing part of the bracket's weight would be reached if the weight
/// were spread evenly.
std::int32_t interpolated(const Search<uint128_t>& search, uint128_t from_low, uint128_t target,
                          bool first) {
  const uint128_t above = search.above + search.above_high;
  const auto missing = static_cast<double>(target - above);
  const auto inside = static_cast<double>(from_low - above);
  const auto low = static_cast<double>(from_order_key(search.low_key));
  const auto high = static_cast<double>(from_order_key(search.high_key));
  double share = inside > 0 ? missing / inside : 0.5;
  if (!first) share += search.low_moved ? -kBeyond : kBeyond;
  const double place = high - std::clamp(share, 0.0, 1.0) * (high - low);
  return std::clamp(order_key(static_cast<float>(place)), search.low_key + 1, search.high_key);
}

}  // namespace

float kth_largest(const Passes& passes, const float* values, std::size_t n, float low, float high,
                  std::size_t k, SelectionScratch& scratch) {
  Search<std::size_t> search{passes, values, n, order_key(low), order_key(high)};
  search.tighten();
  for (int step = 1; search.low_key < search.high_key; ++step) {
    const std::int32_t middle = midpoint_above(search.low_key, search.high_key);
    const std::size_t count =
        passes.count_at_least(search.values, search.n, from_order_key(middle));
    search.step(middle, count, k);
    // If exactly k values remain, any threshold between the k-th value and the next one keeps the
    // same values.
    if (search.above + count == k) break;
    if (step % kStepsPerCut == 0 && search.n > kShortList) search.cut(scratch);
  }
  return from_order_key(search.low_key);
}

float bound_of_kth_largest(const Passes& passes, const float* group_max, std::size_t groups,
                           float low, float high, std::size_t k, SelectionScratch& scratch) {
  if (passes.count_at_least(group_max, groups, low) < k) {
    return -std::numeric_limits<float>::infinity();
  }
  return kth_largest(passes, group_max, groups, low, high, k, scratch);
}

// A block of kTileSize weights relative to the same maximum has a sum below 2^64, as a tile has.
void NearWeights::weigh(const float* values, std::size_t n, float low,
                        std::uint64_t* weights) const {
  for (std::size_t i = 0; i < n; i += kTile) {
    tile_passes->weigh(values + i, std::min(kTile, n - i), *rule, maximum, low, weights + i);
  }
}

uint128_t NearWeights::sum(const float* values, const std::uint64_t* weights, std::size_t n,
                           float low) const {
  uint128_t total = 0;
  for (std::size_t i = 0; i < n; i += kTile) {
    total += passes->sum_listed(values + i, weights + i, std::min(kTile, n - i), low);
  }
  return total;
}

float nucleus_end(const NearWeights& near, const float* values, const std::uint64_t* weights,
                  std::size_t n, float low, float high, uint128_t target, uint128_t total,
                  SelectionScratch& scratch) {
  Search<uint128_t> search{*near.passes, values, n, order_key(low), order_key(high)};
  search.tighten();
  uint128_t from_low = total;  // weight of the listed values with keys >= low_key
  // Interpolation is used only once, because if weights are spread unevenly, only bisection is
  // certain to shorten the list.
  bool interpolates = search.n > kLongList;
  for (int step = 1; search.low_key < search.high_key; ++step) {
    const std::int32_t middle = interpolates ? interpolated(search, from_low, target, step == 1)
                                             : midpoint_above(search.low_key, search.high_key);
    const uint128_t weight = near.sum(search.values, weights, search.n, from_order_key(middle));
    search.step(middle, weight, target);
    if (search.low_moved) from_low = search.above + weight;
    if (step >= (interpolates ? 2 : kStepsPerCut) && search.n > kShortList) {
      search.cut(scratch);
      reserve_with_slack(scratch.weights, search.n);
      near.weigh(search.values, search.n, from_order_key(search.low_key), scratch.weights.data());
      weights = scratch.weights.data();
      step = 0;
      interpolates = false;
    }
  }
  return from_order_key(search.low_key);
}

float nucleus_end(std::vector<WeighedValue>& weighed, float low, float high, uint128_t target) {
  auto begin = weighed.begin();
  auto end = weighed.end();
  std::int32_t low_key = order_key(low);
  std::int32_t high_key = order_key(high);
  uint128_t above = 0;
  while (low_key < high_key) {
    const std::int32_t middle = midpoint_above(low_key, high_key);
    const float pivot = from_order_key(middle);
    const auto below =
        std::partition(begin, end, [pivot](const WeighedValue& value) { return value.x >= pivot; });
    uint128_t weight = above;
    for (auto value = begin; value != below; ++value) weight += value->weight;
    if (weight >= target) {
      low_key = middle;
      end = below;
    } else {
      high_key = middle - 1;
      begin = below;
      above = weight;
    }
  }
  return from_order_key(low_key);
}

}  // namespace fairdraw::cpu
