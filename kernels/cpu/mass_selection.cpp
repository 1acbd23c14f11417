#include "cpu/mass_selection.h"

#include <algorithm>

#include "common/float_order.h"
#include "cpu/selection.h"

namespace fairdraw::cpu {
namespace {

/// Lists up to this length are bisected as they are: a pass costs less than cutting them.
constexpr std::size_t kShortList = 128;
constexpr int kStepsPerCut = 3;
/// Longer lists are cut after two interpolated pivots, one on each side of the answer: the second
/// one lies this share of the bracket beyond the place where the answer is expected.
constexpr std::size_t kLongList = 1024;
constexpr double kBeyond = 1.0 / 32;

std::int32_t midpoint_above(std::int32_t low, std::int32_t high) {
  const std::int64_t sum = static_cast<std::int64_t>(low) + high + 1;
  return static_cast<std::int32_t>(sum >> 1);  // rounds up: low < middle <= high
}

/// A list that is cut while it is searched, and the bracket of keys in which the answer lies.
struct Search {
  const float* values;
  const std::uint64_t* weights;
  std::size_t n;
  std::int32_t low_key, high_key;
  uint128_t from_low;        // weight from low_key up
  uint128_t above = 0;       // weight of what lies above the list's bracket
  uint128_t above_high = 0;  // weight of what lies above high_key, `above` not included
  bool low_moved = false;    // by the last step, or else high_key

  std::int32_t interpolated(uint128_t target, bool first) const {
    const auto missing = static_cast<double>(target - (above + above_high));
    const auto inside = static_cast<double>(from_low - (above + above_high));
    const auto low = static_cast<double>(from_order_key(low_key));
    const auto high = static_cast<double>(from_order_key(high_key));
    double share = inside > 0 ? missing / inside : 0.5;
    if (!first) share += low_moved ? -kBeyond : kBeyond;
    const double place = high - std::clamp(share, 0.0, 1.0) * (high - low);
    return std::clamp(order_key(static_cast<float>(place)), low_key + 1, high_key);
  }

  /// Bisects between values that are there: equal ones end the search at once.
  void tighten(const Passes& passes) {
    if (n == 0) return;
    const Range range = passes.range(values, n);
    const std::int32_t least = order_key(range.min);
    const std::int32_t largest = order_key(range.max);
    if (least > low_key && least <= high_key) low_key = least;
    if (largest < high_key && largest >= low_key) high_key = largest;
  }

  /// One step: on which side of a key the answer is.
  void measure(const NearWeights& near, std::int32_t key, uint128_t target) {
    const uint128_t weight = near.sum(values, weights, n, from_order_key(key));
    low_moved = above + weight >= target;
    if (low_moved) {
      low_key = key;
      from_low = above + weight;
    } else {
      high_key = key - 1;
      above_high = weight;
    }
  }

  void cut(const NearWeights& near, std::vector<float>& kept, std::vector<std::uint64_t>& weighed) {
    reserve_with_slack(kept, n);
    const float low = from_order_key(low_key);
    n = near.bracket_passes->collect_many(values, n, low, from_order_key(high_key), kept.data());
    reserve_with_slack(weighed, n);
    near.weigh(kept.data(), n, low, weighed.data());
    values = kept.data();
    weights = weighed.data();
    above += above_high;
    above_high = 0;
    tighten(*near.passes);
  }
};

}  // namespace

// A block of kTileSize weights relative to one maximum sums to less than 2^64, as a tile does.
void NearWeights::weigh(const float* values, std::size_t n, float low,
                        std::uint64_t* weights) const {
  constexpr auto kStep = static_cast<std::size_t>(kTileSize);
  for (std::size_t i = 0; i < n; i += kStep) {
    tile_passes->weigh(values + i, std::min(kStep, n - i), *rule, maximum, low, weights + i);
  }
}

uint128_t NearWeights::sum(const float* values, const std::uint64_t* weights, std::size_t n,
                           float low) const {
  constexpr auto kStep = static_cast<std::size_t>(kTileSize);
  uint128_t total = 0;
  for (std::size_t i = 0; i < n; i += kStep) {
    total += passes->sum_listed(values + i, weights + i, std::min(kStep, n - i), low);
  }
  return total;
}

float select_near(const float* values, std::size_t n, const NearWeights& near, float low,
                  float high, uint128_t target, uint128_t total, MassScratch& scratch) {
  Search search{values, scratch.weights.data(), n, order_key(low), order_key(high), total};
  search.tighten(*near.passes);
  int buffer = 0;
  // Once: where weights are spread unevenly, only halves are sure to become small.
  bool interpolates = search.n > kLongList;
  for (int step = 1; search.low_key < search.high_key; ++step) {
    const std::int32_t middle = interpolates ? search.interpolated(target, step == 1)
                                             : midpoint_above(search.low_key, search.high_key);
    search.measure(near, middle, target);
    if (step >= (interpolates ? 2 : kStepsPerCut) && search.n > kShortList) {
      search.cut(near, scratch.values[buffer], scratch.fewer_weights);
      buffer ^= 1;
      step = 0;
      interpolates = false;
    }
  }
  return from_order_key(search.low_key);
}

float select_weighed(MassScratch& scratch, float low, float high, uint128_t target) {
  auto begin = scratch.weighed.begin();
  auto end = scratch.weighed.end();
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
