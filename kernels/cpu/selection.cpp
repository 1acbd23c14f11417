#include "cpu/selection.h"

#include <algorithm>
#include <limits>

#include "common/float_order.h"

namespace fairdraw::cpu {
namespace {

/// Lists up to this length are bisected as they are: a pass costs less than cutting them.
constexpr std::size_t kShortList = 128;
constexpr int kStepsPerCut = 3;

std::int32_t midpoint_above(std::int32_t low, std::int32_t high) {
  const std::int64_t sum = static_cast<std::int64_t>(low) + high + 1;
  return static_cast<std::int32_t>(sum >> 1);  // rounds up: low < middle <= high
}

}  // namespace

float select_threshold(const float* values, std::size_t n, const Measure& measure, float low,
                       float high, std::uint64_t target, SelectionScratch& scratch) {
  const Passes& passes = *measure.passes;
  const bool weighted = measure.rule != nullptr;
  std::int32_t low_key = order_key(low);
  std::int32_t high_key = order_key(high);
  std::uint64_t above = 0;       // measure of what lies above the list's bracket
  std::uint64_t above_high = 0;  // measure of what lies above high_key, `above` not included
  bool weights_are_current = false;
  int buffer = 0;
  // Bisect between values that are there: equal ones end the search at once.
  const auto tighten = [&] {
    if (n == 0) return;
    const Range range = passes.range(values, n);
    const std::int32_t least = order_key(range.min);
    const std::int32_t largest = order_key(range.max);
    if (least > low_key && least <= high_key) low_key = least;
    if (largest < high_key && largest >= low_key) high_key = largest;
  };
  tighten();
  for (int step = 1; low_key < high_key; ++step) {
    if (weighted && !weights_are_current) {
      reserve_with_slack(scratch.weights, n);
      passes.weigh(values, n, *measure.rule, from_order_key(low_key), scratch.weights.data());
      weights_are_current = true;
    }
    const std::int32_t middle = midpoint_above(low_key, high_key);
    const float pivot = from_order_key(middle);
    const std::uint64_t measured = weighted
                                       ? passes.sum_listed(values, scratch.weights.data(), n, pivot)
                                       : passes.count_at_least(values, n, pivot);
    if (above + measured >= target) {
      low_key = middle;
      // Exactly k values: any threshold between the k-th and the next keeps the same ones.
      if (!weighted && above + measured == target) break;
    } else {
      high_key = middle - 1;
      above_high = measured;
    }
    if (step % kStepsPerCut == 0 && n > kShortList) {
      std::vector<float>& cut = scratch.values[buffer];
      reserve_with_slack(cut, n);
      n = passes.collect(values, n, from_order_key(low_key), from_order_key(high_key), cut.data());
      values = cut.data();
      buffer ^= 1;
      above += above_high;
      above_high = 0;
      weights_are_current = false;
      tighten();
    }
  }
  return from_order_key(low_key);
}

float bound_of_kth_largest(const float* group_max, std::size_t groups, const Passes& passes,
                           std::size_t k, float low, float high) {
  if (passes.count_at_least(group_max, groups, low) < k) {
    return -std::numeric_limits<float>::infinity();
  }
  // A bound that lets in a sixteenth more maxima than needed is close enough.
  const std::size_t enough = k + k / 16;
  std::int32_t low_key = order_key(std::max(low, passes.range(group_max, groups).min));
  std::int32_t high_key = order_key(high);
  while (low_key < high_key) {
    const std::int32_t middle = midpoint_above(low_key, high_key);
    const std::size_t count = passes.count_at_least(group_max, groups, from_order_key(middle));
    if (count < k) {
      high_key = middle - 1;
    } else {
      low_key = middle;
      if (count <= enough) break;
    }
  }
  return from_order_key(low_key);
}

}  // namespace fairdraw::cpu
