// Where a nucleus is guessed to end (indexed_nucleus.cpp): a bracket of values.
//
// The guess: pieces spread over the row are a sample. Unless that shows an even row, the head of
// the row (a hundred values or so, found through the group maxima as for top_k) is listed and
// weighed, so that no sample has to catch the few values that may hold most of the mass. If the
// head is likely to hold the nucleus, it is the bracket, and the pass is the index alone. Else the
// rest of the sample makes a histogram of weight over values; the bracket is kCpuBracketDeviations
// standard deviations of W(>= v) - p Z wide to each side. Rows with heavy ties get a bracket of one
// value, which needs counting, not listing.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "common/float_order.h"
#include "cpu/indexed_row.h"

namespace fairdraw::cpu {
namespace {

constexpr float kLargestFinite = std::numeric_limits<float>::max();

/// Half the width of a guessed bracket in standard deviations: a miss in some 400 rows, at the
/// cost of about one more pass, against a list that is a quarter shorter than with 4.
constexpr double kCpuBracketDeviations = 3.0;
/// The head: so many group maxima, and at most so many values.
constexpr std::size_t kHeadSize = 128;
constexpr std::size_t kHeadLimit = 16 * kHeadSize;
/// A row is even where its sample weighs like that many equal values at least, so that its weight
/// is off by a twentieth, and this many times the row's largest value at least.
constexpr double kEvenValues = 400;
constexpr double kEvenLargest = 16;
/// The sample of the tail: pieces of consecutive values, spread evenly. A small row has a small
/// sample: looking at it costs as much as the longer list that a wider bracket brings.
constexpr std::size_t kPieceSize = 32;
constexpr std::size_t pieces_of(std::size_t n) { return n < (1U << 16U) ? 32 : 64; }
static_assert(kPieceSize <= kShortRow);
constexpr std::size_t kBins = 256;
/// Further below the maximum, in octaves, weights are nearly 0.
constexpr double kOctaves = 41;
/// A bracket that holds more than this share may be one value with its ties.
constexpr double kTieShare = 1.0 / 16;

/// What the sample has of one bin of values: weight, sum of squared weights, and how many.
struct Bin {
  double weight = 0;
  double square = 0;
  double count = 0;
};

/// A weight v as a double; it has less than 63 bits.
double estimate_of(std::uint64_t weight) {
  return static_cast<double>(static_cast<std::int64_t>(weight));
}

}  // namespace

/// Lists and weighs the head, from about the size-th largest group maximum on, or the size-th
/// largest tile maximum of a row that was not scanned. Empty where ties make it too long.
IndexedRow::Head IndexedRow::weigh_head(std::size_t size, float base) {
  const std::vector<float>& maxima = has_groups_ ? group_max_ : tile_max_;
  const std::size_t count = has_groups_ ? blocks_ * kGroups : tiles_;
  if (!has_groups_) {
    if (tile_max_.size() < tiles_) tile_max_.resize(tiles_);
    std::transform(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(tiles_),
                   tile_max_.begin(), [](std::int32_t key) { return from_order_key(key); });
  }
  const float low = bound_of_kth_largest(*passes_, maxima.data(), count, base, max_,
                                         std::min(size, count / 4), scratch_);
  const bool reached = low >= base && collect_list(low, kLargestFinite, kHeadLimit);
  if (!reached) return no_head();
  std::vector<std::uint64_t>& weights = list_weights_.near;
  reserve_with_slack(weights, list_size_);
  near_weights().weigh(list_.data(), list_size_, base, weights.data());
  double weight = 0;
  for (std::size_t i = 0; i < list_size_; ++i) weight += estimate_of(weights[i]);
  return {low, weight};
}

IndexedRow::Head IndexedRow::no_head() const { return {next_above(max_), 0}; }

/// Spreads pieces over the row and lists their values in [low, high].
void IndexedRow::take_sample(float low, float high) {
  const std::size_t pieces = pieces_of(n_);
  reserve_with_slack(sample_, pieces * kPieceSize);
  sample_size_ = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t begin = (n_ - kPieceSize) * piece / (pieces - 1);
    sample_size_ +=
        passes_->collect_many(row_ + begin, kPieceSize, low, high, sample_.data() + sample_size_);
  }
  sample_taken_ = pieces * kPieceSize;
}

/// Weighs the sample's values below the head; the others are dropped.
IndexedRow::Tail IndexedRow::weigh_tail(const Head& head, float base) {
  reserve_with_slack(sample_weights_, sample_size_);
  if (head.weight > 0) {
    const auto end = sample_.begin() + static_cast<std::ptrdiff_t>(sample_size_);
    const auto kept = std::remove_if(sample_.begin(), end, [&](float x) { return x >= head.low; });
    sample_size_ = static_cast<std::size_t>(kept - sample_.begin());
  }
  near_weights().weigh(sample_.data(), sample_size_, base, sample_weights_.data());
  // Several sums, because each addition waits for the one before it.
  constexpr std::size_t kSums = 8;
  std::fill_n(sample_weights_.begin() + static_cast<std::ptrdiff_t>(sample_size_), kSums, 0U);
  double weight[kSums] = {};
  double square[kSums] = {};
  for (std::size_t i = 0; i < sample_size_; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      const double each = estimate_of(sample_weights_[i + j]);
      weight[j] += each;
      square[j] += each * each;
    }
  }
  return {std::accumulate(weight, weight + kSums, 0.0),
          std::accumulate(square, square + kSums, 0.0)};
}

IndexedRow::Bracket IndexedRow::guess_nucleus(float top_p, float base) {
  if (n_ <= kShortRow) return {base, max_, BracketKind::to_list};
  take_sample(base, max_);
  const std::optional<Bracket> even = guess_in_even_row(top_p, base);
  return even ? *even : guess_in_uneven_row(top_p, base);
}

/// How many values of the row a sampled one stands for.
double IndexedRow::values_per_sampled() const {
  return static_cast<double>(n_) / static_cast<double>(sample_taken_);
}

/// An even row needs no head: the sample's own weights say so, and the row's largest one, as far
/// as max_ is known.
std::optional<IndexedRow::Bracket> IndexedRow::guess_in_even_row(float top_p, float base) {
  const Head head = no_head();
  const Tail tail = weigh_tail(head, base);
  std::uint64_t largest[1 + kTileSlack];
  near_weights().weigh(&max_, 1, base, largest);
  const bool even = tail.weight * tail.weight >= kEvenValues * tail.square &&
                    tail.weight >= kEvenLargest * estimate_of(largest[0]);
  if (!even) return std::nullopt;
  const double times = values_per_sampled();
  const double p = static_cast<double>(top_p);
  return guess_in_tail(p, base, head, p * tail.weight * times, times);
}

/// After take_sample.
IndexedRow::Bracket IndexedRow::guess_in_uneven_row(float top_p, float base) {
  const double times = values_per_sampled();
  const double p = static_cast<double>(top_p);
  Head head = no_head();
  double target = 0;
  for (const std::size_t size : {kHeadSize / 4, kHeadSize}) {
    head = weigh_head(size, base);
    const Tail tail = weigh_tail(head, base);
    target = p * (head.weight + tail.weight * times);
    // What is decided is W(>= v) - p Z: values above v count 1 - p in it, the others -p. For a v at
    // the head's end every sampled value counts p.
    const double margin = kCpuBracketDeviations * times * p * std::sqrt(tail.square);
    if (head.weight > target + margin) return {head.low, max_, BracketKind::listed};
  }
  return guess_in_tail(p, base, head, target, times);
}

/// The bracket for a nucleus that ends below the head.
IndexedRow::Bracket IndexedRow::guess_in_tail(double p, float base, const Head& head, double target,
                                              double times) {
  if (sample_size_ == 0) return {base, kLargestFinite, BracketKind::to_list};
  // Bins are linear in the value; the sample's own range leaves out what weighs nothing.
  const Range range = passes_->range(sample_.data(), sample_size_);
  const double origin = std::max(static_cast<double>(range.min), value_below_maximum(kOctaves));
  const double width = static_cast<double>(range.max) - origin;
  const double per_unit = width > 0 ? static_cast<double>(kBins) / width : 0;
  std::array<Bin, kBins> bins{};
  for (std::size_t i = 0; i < sample_size_; ++i) {
    const double place = (static_cast<double>(sample_[i]) - origin) * per_unit;
    // Of a row with NaN or +inf, which the pass itself finds, place may be NaN: the first bin.
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

  std::size_t end = kBins;  // the bracket's bins are [begin, end)
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
  const float low = begin == 0 ? base : std::max(base, edge(begin));
  if (inside > kTieShare * static_cast<double>(n_)) {
    reserve_with_slack(known_values_, sample_size_);
    const std::size_t count =
        passes_->collect_many(sample_.data(), sample_size_, low, high, known_values_.data());
    const Range known = count == 0 ? Range{low, high} : passes_->range(known_values_.data(), count);
    if (known.min == known.max) return {known.min, known.max, BracketKind::one_value};
  }
  return {std::min(low, high), high, BracketKind::to_list};
}

/// The value so many octaves below the maximum.
double IndexedRow::value_below_maximum(double octaves) const {
  const auto maximum = static_cast<double>(max_);
  return rule_.from_probs ? std::ldexp(maximum, -static_cast<int>(octaves))
                          : maximum - octaves / static_cast<double>(rule_.scale);
}

}  // namespace fairdraw::cpu
