// top_p on one row: where the nucleus ends (indexed_row.h).
//
// The threshold is the largest value v whose mass W(>= v) reaches the target max(1, ceil(p Z)).
// The total Z needs every weight once. So that this one pass also finds v, a bracket of values is
// guessed before it, and the pass makes the index of tiles, sums the weights above the bracket by
// tile, and lists the bracket's values. If the target lies between the mass above and that with
// the bracket, v is in the list; what is above and the list's values then are the prefix sums of
// the survivors, without another pass.
//
// The guess: pieces spread over the row are a sample. Unless that shows an even row, the head of
// the row (a hundred values or so, found through the group maxima as for top_k) is listed and
// weighed, so that no sample has to catch the few values that may hold most of the mass. If the
// head is likely to hold the nucleus, it is the bracket, and the pass is the index alone. Else the
// rest of the sample makes a histogram of weight over values; the bracket is kCpuBracketDeviations
// standard deviations of W(>= v) - p Z wide to each side. Rows with heavy ties get a bracket of one
// value, which needs counting, not listing.
//
// A wrong guess is found out by the exact sums and costs a pass over the side that it missed.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cpu/indexed_row.h"

namespace fairdraw::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargestFinite = std::numeric_limits<float>::max();
constexpr auto kTile = static_cast<std::size_t>(kTileSize);

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

/// Weight, variance of its estimate, and number of values, by bin of the value.
struct Histogram {
  std::array<double, kBins> weight{}, square{}, count{};
};

/// A weight v as a double; it has less than 63 bits.
double estimate_of(std::uint64_t weight) {
  return static_cast<double>(static_cast<std::int64_t>(weight));
}

}  // namespace

void IndexedRow::apply_top_p(float top_p, FilterOrder filter_order, float base) {
  if (low_ >= max_) return;  // only ties of the maximum are left: every nucleus holds them
  if (on_list_) {
    cut_list_to_nucleus(top_p, filter_order, base);
  } else {
    cut_row_to_nucleus(top_p, filter_order, base);
  }
}

void IndexedRow::cut_list_to_nucleus(float top_p, FilterOrder filter_order, float base) {
  const bool joint = filter_order == FilterOrder::joint;
  const uint128_t survivors = survivors_weight();
  const uint128_t target = nucleus_target(top_p, joint ? weight_of_row_from(base) : survivors);
  // Jointly, what top_k keeps may hold less than the nucleus needs: then all of it stays.
  if (survivors < target) return;
  weigh_list(low_);
  const float threshold = select_in_list(low_, max_, target);
  if (threshold <= low_) return;
  low_ = threshold;
  tie_end_ = n_;
  tie_end_in_domain_ = list_size_;
  prefix_.clear();
}

// --- The guess -----------------------------------------------------------------------------------

NearWeights IndexedRow::near_weights() const {
  return {passes_, tile_passes_, bracket_passes_, &rule_, max_};
}

/// Lists and weighs the head, from about the size-th largest group maximum on. Empty where ties
/// make it too long.
IndexedRow::Head IndexedRow::weigh_head(std::size_t size, float base) {
  const float low = kth_largest_group(std::min(size, blocks_ * kGroups / 4), base);
  const bool reached = low >= base && collect_list(low, kLargestFinite, kHeadLimit);
  if (!reached) return no_head();
  std::vector<std::uint64_t>& weights = mass_scratch_.weights;
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
    sample_size_ += bracket_passes_->collect_many(row_ + begin, kPieceSize, low, high,
                                                  sample_.data() + sample_size_);
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
  Tail tail{};
  for (std::size_t i = 0; i < sample_size_; ++i) {
    const double weight = estimate_of(sample_weights_[i]);
    tail.weight += weight;
    tail.square += weight * weight;
  }
  return tail;
}

IndexedRow::Bracket IndexedRow::guess_nucleus(float top_p, float base) {
  if (n_ <= kShortRow) return {base, max_, BracketKind::to_list};
  take_sample(base, max_);
  const double times = static_cast<double>(n_) / static_cast<double>(sample_taken_);
  const double p = static_cast<double>(top_p);
  Head head = no_head();
  Tail tail = weigh_tail(head, base);
  double target = p * tail.weight * times;
  // An even row needs no head: the sample's own weights say so, and the row's largest one.
  std::uint64_t largest[1 + kTileSlack];
  near_weights().weigh(&max_, 1, base, largest);
  const bool even = tail.weight * tail.weight >= kEvenValues * tail.square &&
                    tail.weight >= kEvenLargest * estimate_of(largest[0]);
  for (const std::size_t size : {kHeadSize / 4, kHeadSize}) {
    if (even) break;
    head = weigh_head(size, base);
    tail = weigh_tail(head, base);
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
  if (sample_size_ == 0) return {base, max_, BracketKind::to_list};
  // Bins are linear in the value; the sample's own range leaves out what weighs nothing.
  const Range range = passes_->range(sample_.data(), sample_size_);
  const double origin = std::max(static_cast<double>(range.min), value_below_maximum(kOctaves));
  const double width = static_cast<double>(range.max) - origin;
  const double per_unit = width > 0 ? static_cast<double>(kBins) / width : 0;
  Histogram histogram;
  for (std::size_t i = 0; i < sample_size_; ++i) {
    const double place = (static_cast<double>(sample_[i]) - origin) * per_unit;
    const auto bin =
        static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)));
    const double weight = times * estimate_of(sample_weights_[i]);
    histogram.weight[bin] += weight;
    histogram.square[bin] += weight * weight;
    histogram.count[bin] += times;
  }
  double variance = 0;
  double mass = head.weight;
  for (std::size_t bin = kBins; bin-- > 0; mass += histogram.weight[bin]) {
    const double share = mass < target ? 1 - p : p;
    variance += share * share * histogram.square[bin];
  }
  const double margin = kCpuBracketDeviations * std::sqrt(variance);

  std::size_t end = kBins;  // the bracket's bins are [begin, end)
  mass = head.weight;
  while (end > 0 && mass + histogram.weight[end - 1] < target - margin) {
    mass += histogram.weight[--end];
  }
  std::size_t begin = end;
  double inside = 0;
  while (begin > 0 && mass < target + margin) {
    --begin;
    mass += histogram.weight[begin];
    inside += histogram.count[begin];
  }
  const auto edge = [&](std::size_t bin) {
    return static_cast<float>(origin + static_cast<double>(bin) / std::max(per_unit, 1e-300));
  };
  const bool reaches_head = end == kBins && head.weight >= target - margin;
  const float high = reaches_head ? max_ : end == kBins ? range.max : edge(end);
  const float low = begin == 0 ? base : std::max(base, edge(begin));
  if (inside > kTieShare * static_cast<double>(n_)) {
    reserve_with_slack(known_values_, sample_size_);
    const std::size_t count =
        passes_->collect(sample_.data(), sample_size_, low, high, known_values_.data());
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

// --- The pass ------------------------------------------------------------------------------------

void IndexedRow::cut_row_to_nucleus(float top_p, FilterOrder filter_order, float base) {
  const bool joint = filter_order == FilterOrder::joint;
  // What the nucleus is measured on: everything from `base` up, or the survivors of top_k.
  const float from = joint ? base : low_;
  const Bracket guess = guess_nucleus(top_p, from);
  const MeasuredBracket measured = measure_bracket(guess, from);
  const uint128_t target =
      nucleus_target(top_p, measured.total - (joint ? 0 : weight_of_cut_ties()));

  float threshold = guess.low;
  bool list_is_the_top = !guess.one_value() && guess.high == max_;
  bool guess_holds = false;
  list_low_ = guess.low;
  if (measured.above >= target) {  // the guess was too low
    list_low_ = next_above(guess.high);
    collect_list(list_low_, kLargestFinite, n_);
    list_is_the_top = true;
    weigh_list(list_low_);
    threshold = select_in_list(list_low_, max_, target);
  } else if (measured.above + measured.inside < target && guess.low > from) {  // too high
    const float high = previous_below(guess.low);
    collect_list(from, high, n_);
    list_is_the_top = false;
    weigh_list(from);
    threshold = select_in_list(from, high, target - measured.above - measured.inside);
  } else {
    guess_holds = true;
    if (!guess.one_value()) {
      threshold = select_in_list(guess.low, guess.high, target - measured.above);
    }
  }
  if (threshold <= low_) return;  // nothing is cut; ties that top_k cut stay cut
  low_ = threshold;
  tie_end_ = n_;
  if (list_is_the_top) {
    use_list(list_low_);
  } else {
    use_row();
    if (guess_holds) add_bracket_to_tiles(guess, threshold);
  }
}

/// One pass: the weight of the values >= from, and of those above the bracket; lists and weighs the
/// bracket's values, or counts them where they are all equal.
IndexedRow::MeasuredBracket IndexedRow::measure_bracket(const Bracket& bracket, float from) {
  MeasuredBracket measured{};
  if (bracket.kind == BracketKind::listed && from <= smallest_allowed()) {
    need_tile_sums();
  } else {
    measure_tiles(bracket, from);
  }
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    const int shift = shifts_[tile];
    measured.total += row_weight(sums_[tile], shift);
    if (bracket.kind != BracketKind::listed) {
      measured.above += row_weight(survivor_sums_[tile], shift);
    }
    if (bracket.one_value()) {
      measured.inside += row_weight(ties_[tile], shift);
    }
  }
  if (!bracket.one_value()) measured.inside = weigh_list(bracket.low);
  return measured;
}

void IndexedRow::measure_tiles(const Bracket& bracket, float from) {
  for (std::vector<std::uint64_t>* sums : {&sums_, &survivor_sums_}) {
    if (sums->size() < tiles_) sums->resize(tiles_);
  }
  if (keys_.size() < tiles_) keys_.resize(tiles_);
  if (run_begin_.size() < tiles_) run_begin_.resize(tiles_);
  // Two kinds list nothing: their low end is out of reach, and what the pass overwrites is not
  // the list that the head may be in.
  const bool lists = bracket.kind == BracketKind::to_list;
  if (lists) reserve_with_slack(list_, n_);
  float overwritten[kSlack];
  const BracketBounds bounds{from, lists ? bracket.low : kInfinity,
                             bracket.kind == BracketKind::listed ? kInfinity : bracket.high};
  const std::size_t listed =
      bracket_passes_->measure(row_, n_, rule_, bounds,
                               {keys_.data(), sums_.data(), survivor_sums_.data(),
                                run_begin_.data(), lists ? list_.data() : overwritten});
  has_keys_ = true;
  find_shifts();
  has_sums_ = from <= smallest_allowed();
  if (lists) {
    list_size_ = listed;
    list_runs_.clear();
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      list_runs_.push_back({tile, run_begin_[tile]});
    }
  }
  if (bracket.one_value()) weigh_ties(bracket.low);
}

/// Weighs the tokens of one value, tile by tile.
void IndexedRow::weigh_ties(float value) {
  if (ties_.size() < tiles_) ties_.resize(tiles_);
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    const float* x = row_ + tile * kTile;
    const std::size_t length = tile_length(tile);
    std::size_t tied = 0;
    if (keys_[tile] >= order_key(value)) tied = passes_->count_at_least(x, length, value);
    if (keys_[tile] > order_key(value)) {
      tied -= passes_->count_at_least(x, length, next_above(value));
    }
    ties_[tile] = tied == 0 ? 0 : tied * weight_in_tile(tile, value);
  }
}

/// Weight v of one token of a value in a tile.
std::uint64_t IndexedRow::weight_in_tile(std::size_t tile, float value) const {
  const float maximum = from_order_key(keys_[tile]);
  std::uint64_t weight = 0;
  if (value <= maximum) weight = tile_passes_->sum(&value, 1, rule_, maximum, value);
  return weight;
}

/// Weight of the tokens at low_ that top_k did not keep.
uint128_t IndexedRow::weight_of_cut_ties() const {
  uint128_t weight = 0;
  for (std::size_t i = tie_end_; i < n_; ++i) {
    if (row_[i] != low_) continue;
    const std::size_t tile = i / kTile;
    weight += row_weight(weight_in_tile(tile, low_), shifts_[tile]);
  }
  return weight;
}

// --- Selection -----------------------------------------------------------------------------------

/// Weighs the listed values >= low and returns their sum, for select_in_list.
uint128_t IndexedRow::weigh_list(float low) {
  if (is_near(low)) {
    std::vector<std::uint64_t>& weights = mass_scratch_.weights;
    reserve_with_slack(weights, list_size_);
    const NearWeights near = near_weights();
    near.weigh(list_.data(), list_size_, low, weights.data());
    list_weight_ = near.sum(list_.data(), weights.data(), list_size_, low) << kRowBits;
    return list_weight_;
  }
  std::vector<WeighedValue>& weighed = mass_scratch_.weighed;
  weighed.clear();
  list_weight_ = 0;
  for (std::size_t run = 0; run < list_runs_.size(); ++run) {
    const std::size_t length = run_length(run);
    if (length == 0) continue;
    const float* values = list_.data() + list_runs_[run].begin;
    // A list of a row without keys is a top set: it has the maximum of each of its tiles.
    const float maximum = has_keys_ ? from_order_key(keys_[list_runs_[run].tile])
                                    : passes_->range(values, length).max;
    const int shift = shift_of(maximum);
    std::uint64_t weights[kTile + kTileSlack];
    tile_passes_->weigh(values, length, rule_, maximum, low, weights);
    for (std::size_t i = 0; i < length; ++i) {
      if (!(values[i] >= low)) continue;
      weighed.push_back({values[i], row_weight(weights[i], shift)});
      list_weight_ += weighed.back().weight;
    }
  }
  return list_weight_;
}

/// The largest v in [low, high] such that the listed values >= v weigh at least `target`. The list
/// was weighed from `low` on.
float IndexedRow::select_in_list(float low, float high, uint128_t target) {
  if (!is_near(low)) return select_weighed(mass_scratch_, low, high, target);
  const uint128_t unit = uint128_t{1} << kRowBits;  // near weights are multiples of it
  return select_near(list_.data(), list_size_, near_weights(), low, high,
                     (target + (unit - 1)) >> kRowBits, list_weight_ >> kRowBits, mass_scratch_);
}

/// Adds the bracket's survivors to what is above it, tile by tile.
void IndexedRow::add_bracket_to_tiles(const Bracket& bracket, float threshold) {
  has_survivor_sums_ = true;
  const bool near = !bracket.one_value() && is_near(bracket.low);
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    if (bracket.one_value()) {
      survivor_sums_[tile] += ties_[tile];
      continue;
    }
    const std::size_t begin = list_runs_[tile].begin;
    const std::size_t length = run_length(tile);
    if (length == 0) continue;
    const float* values = list_.data() + begin;
    // Near weights are of the list's weights, relative to the row's maximum.
    survivor_sums_[tile] +=
        near ? passes_->sum_listed(values, mass_scratch_.weights.data() + begin, length, threshold)
                   << (kRowBits - shifts_[tile])
             : tile_passes_->sum(values, length, rule_, from_order_key(keys_[tile]), threshold);
  }
}

}  // namespace fairdraw::cpu
