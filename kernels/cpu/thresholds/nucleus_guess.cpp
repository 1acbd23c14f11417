// The guess uses a sample, which consists of pieces of consecutive values that are spread over the
// row. Unless the sample shows that the row is even, the head of the row is listed and weighed. The
// head has about a hundred values, which are found through the group maxima as for top_k. So the
// sample need not include the few values that may have most of the mass. If the head probably
// contains the nucleus, the head is the bracket, and the pass only makes the index. Otherwise the
// rest of the sample gives a histogram of weight over values. The bracket extends
// kCpuBracketDeviations standard deviations of W(>= v) - p Z to each side. In rows with many tied
// values, the bracket has a single value, whose ties are counted instead of listed.
#include "cpu/thresholds/nucleus_guess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/float_order.h"

namespace fairdraw::cpu {
namespace {

constexpr float kLargestFinite = std::numeric_limits<float>::max();

/// Half the width of a guessed bracket, in standard deviations. With 3 deviations, about one row in
/// 400 is missed, which costs about one more pass, but the list is a quarter shorter than with 4
/// deviations.
constexpr double kCpuBracketDeviations = 3.0;
/// Size of the head, which is found from kHeadSize group maxima and has at most kHeadLimit values.
constexpr std::size_t kHeadSize = 128;
constexpr std::size_t kHeadLimit = 16 * kHeadSize;
/// A row is even if its sample weighs at least as much as kEvenValues equal values, so that the
/// weight is wrong by about a twentieth, and at least kEvenLargest times as much as the row's
/// largest value.
constexpr double kEvenValues = 400;
constexpr double kEvenLargest = 16;
/// Size of a piece in the sample of the tail, which consists of evenly spread pieces of consecutive
/// values. A small row has a small sample, because reading a larger sample costs as much as the
/// longer list of a wider bracket.
constexpr std::size_t kPieceSize = 32;
constexpr std::size_t pieces_of(std::size_t n) { return n < (1U << 16U) ? 32 : 64; }
static_assert(kPieceSize <= kShortRow);
constexpr std::size_t kBins = 256;
/// Number of octaves below the maximum at which weights become negligible.
constexpr double kOctaves = 41;
/// Part of the row above which a bracket may consist of a single value and its ties.
constexpr double kTieShare = 1.0 / 16;

/// Bin of sampled values, with their weight, the sum of their squared weights, and their number.
struct Bin {
  double weight = 0;
  double square = 0;
  double count = 0;
};

/// Returns a weight v, which has less than 63 bits, as a double.
double estimate_of(std::uint64_t weight) {
  return static_cast<double>(static_cast<std::int64_t>(weight));
}

/// Returns the value that is a given number of octaves below the maximum.
double value_below_maximum(const RowIndex& row, double octaves) {
  const auto maximum = static_cast<double>(row.max);
  return row.rule.from_probs ? std::ldexp(maximum, -static_cast<int>(octaves))
                             : maximum - octaves / static_cast<double>(row.rule.scale);
}

/// Returns the number of values of the row for which each sampled value stands.
double values_per_sampled(const RowIndex& row, const RowSample& sample) {
  return static_cast<double>(row.size) / static_cast<double>(sample.taken);
}

}  // namespace

/// Lists and weighs the head of the row, which begins at about the size-th largest group maximum,
/// or at the size-th largest tile maximum if the row has not been scanned. The head is empty if
/// ties make the head too long.
NucleusGuess::Head NucleusGuess::weigh_head(RowIndex& row, ValueList& list, std::size_t size,
                                            float from) {
  const std::vector<float>& maxima = row.has_groups ? row.group_max : tile_max_;
  const std::size_t count = row.has_groups ? row.blocks * kGroups : row.tiles;
  if (!row.has_groups) {
    grow(tile_max_, row.tiles);
    std::transform(row.keys.begin(), row.keys.begin() + static_cast<std::ptrdiff_t>(row.tiles),
                   tile_max_.begin(), [](std::int32_t key) { return from_order_key(key); });
  }
  const float low = bound_of_kth_largest(*row.passes, maxima.data(), count, from, row.max,
                                         std::min(size, count / 4), scratch_);
  const bool reached = low >= from && list.collect(row, low, kLargestFinite, kHeadLimit);
  if (!reached) return no_head(row);
  std::vector<std::uint64_t>& weights = head_weights_;
  reserve_with_slack(weights, list.size());
  near_weights_of(row).weigh(list.values(), list.size(), from, weights.data());
  double weight = 0;
  for (std::size_t i = 0; i < list.size(); ++i) weight += estimate_of(weights[i]);
  return {low, weight};
}

NucleusGuess::Head NucleusGuess::no_head(const RowIndex& row) { return {next_above(row.max), 0}; }

void RowSample::take(const RowIndex& row, float low, float high) {
  const std::size_t pieces = pieces_of(row.size);
  reserve_with_slack(values, pieces * kPieceSize);
  size = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t begin = (row.size - kPieceSize) * piece / (pieces - 1);
    size += row.passes->collect_many(row.x + begin, kPieceSize, low, high, values.data() + size);
  }
  taken = pieces * kPieceSize;
}

/// Computes the weights of the sampled values below the head, and drops all other sampled values.
NucleusGuess::Tail NucleusGuess::weigh_tail(const RowIndex& row, RowSample& sample,
                                            const Head& head, float from) {
  reserve_with_slack(sample_weights_, sample.size);
  if (head.weight > 0) {
    const auto end = sample.values.begin() + static_cast<std::ptrdiff_t>(sample.size);
    const auto kept =
        std::remove_if(sample.values.begin(), end, [&](float x) { return x >= head.low; });
    sample.size = static_cast<std::size_t>(kept - sample.values.begin());
  }
  near_weights_of(row).weigh(sample.values.data(), sample.size, from, sample_weights_.data());
  // The loop adds to several sums, because each addition to one sum has to wait for the previous
  // addition.
  constexpr std::size_t kSums = 8;
  std::fill_n(sample_weights_.begin() + static_cast<std::ptrdiff_t>(sample.size), kSums, 0U);
  double weight[kSums] = {};
  double square[kSums] = {};
  for (std::size_t i = 0; i < sample.size; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      const double each = estimate_of(sample_weights_[i + j]);
      weight[j] += each;
      square[j] += each * each;
    }
  }
  return {std::accumulate(weight, weight + kSums, 0.0),
          std::accumulate(square, square + kSums, 0.0)};
}

Bracket NucleusGuess::of_row(RowIndex& row, ValueList& list, RowSample& sample, float top_p,
                             float from) {
  if (row.size <= kShortRow) return {from, row.max, BracketKind::to_list};
  sample.take(row, from, row.max);
  const std::optional<Bracket> even = of_even_row(row, sample, top_p, from);
  return even ? *even : of_uneven_row(row, list, sample, top_p, from);
}

std::optional<Bracket> NucleusGuess::of_even_row(const RowIndex& row, RowSample& sample,
                                                 float top_p, float from) {
  const Head head = no_head(row);
  const Tail tail = weigh_tail(row, sample, head, from);
  std::uint64_t largest[1 + kTileSlack];
  near_weights_of(row).weigh(&row.max, 1, from, largest);
  const bool even = tail.weight * tail.weight >= kEvenValues * tail.square &&
                    tail.weight >= kEvenLargest * estimate_of(largest[0]);
  if (!even) return std::nullopt;
  const double p = static_cast<double>(top_p);
  return in_tail(row, sample, p, from, head, p * tail.weight * values_per_sampled(row, sample));
}

Bracket NucleusGuess::of_uneven_row(RowIndex& row, ValueList& list, RowSample& sample, float top_p,
                                    float from) {
  const double times = values_per_sampled(row, sample);
  const double p = static_cast<double>(top_p);
  Head head = no_head(row);
  double target = 0;
  for (const std::size_t size : {kHeadSize / 4, kHeadSize}) {
    head = weigh_head(row, list, size, from);
    const Tail tail = weigh_tail(row, sample, head, from);
    target = p * (head.weight + tail.weight * times);
    // The decision depends on W(>= v) - p Z, in which values above v count with the factor 1 - p,
    // and all others with -p. If v is the smallest value of the head, all sampled values are below
    // v and count with the factor -p.
    const double margin = kCpuBracketDeviations * times * p * std::sqrt(tail.square);
    if (head.weight > target + margin) return {head.low, row.max, BracketKind::listed};
  }
  return in_tail(row, sample, p, from, head, target);
}

/// Returns the bracket for a nucleus that ends below the head.
Bracket NucleusGuess::in_tail(const RowIndex& row, const RowSample& sample, double p, float from,
                              const Head& head, double target) {
  const double times = values_per_sampled(row, sample);
  if (sample.size == 0) return {from, kLargestFinite, BracketKind::to_list};
  // The bins are linear in the value; the range of the sample excludes values without weight.
  const Range range = row.passes->range(sample.values.data(), sample.size);
  const double origin =
      std::max(static_cast<double>(range.min), value_below_maximum(row, kOctaves));
  const double width = static_cast<double>(range.max) - origin;
  const double per_unit = width > 0 ? static_cast<double>(kBins) / width : 0;
  std::array<Bin, kBins> bins{};
  for (std::size_t i = 0; i < sample.size; ++i) {
    const double place = (static_cast<double>(sample.values[i]) - origin) * per_unit;
    // If the row has NaN or +inf, which the pass itself reports, `place` may be NaN; then the first
    // bin is used.
    const double last = kBins - 1;
    Bin& bin = bins[place > 0 ? static_cast<std::size_t>(std::min(place, last)) : 0];
    const double weight = estimate_of(sample_weights_[i]);
    bin.weight += weight;
    bin.square += weight * weight;
    bin.count += 1;
  }
  for (Bin& bin : bins) bin = {times * bin.weight, times * times * bin.square, times * bin.count};
  double variance = 0;
  double mass = head.weight;
  for (std::size_t bin = kBins; bin-- > 0; mass += bins[bin].weight) {
    const double share = mass < target ? 1 - p : p;
    variance += share * share * bins[bin].square;
  }
  const double margin = kCpuBracketDeviations * std::sqrt(variance);

  std::size_t end = kBins;  // the bins of the bracket are [begin, end)
  mass = head.weight;
  while (end > 0 && mass + bins[end - 1].weight < target - margin) {
    mass += bins[--end].weight;
  }
  std::size_t begin = end;
  double inside = 0;
  while (begin > 0 && mass < target + margin) {
    --begin;
    mass += bins[begin].weight;
    inside += bins[begin].count;
  }
  const auto edge = [&](std::size_t bin) {
    return static_cast<float>(origin + std::max(width, 0.0) * static_cast<double>(bin) / kBins);
  };
  const bool reaches_head = end == kBins && head.weight >= target - margin;
  const float high = reaches_head ? kLargestFinite : end == kBins ? range.max : edge(end);
  const float low = begin == 0 ? from : std::max(from, edge(begin));
  if (inside > kTieShare * static_cast<double>(row.size)) {
    reserve_with_slack(known_values_, sample.size);
    const std::size_t count = row.passes->collect_many(sample.values.data(), sample.size, low, high,
                                                       known_values_.data());
    const Range known =
        count == 0 ? Range{low, high} : row.passes->range(known_values_.data(), count);
    if (known.min == known.max) return {known.min, known.max, BracketKind::one_value};
  }
  return {std::min(low, high), high, BracketKind::to_list};
}

}  // namespace fairdraw::cpu
