// What a row keeps: status, min_p and top_k (indexed_row.h).
#include "cpu/indexed_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/float_order.h"
#include "cpu/min_p_threshold.h"

namespace fairdraw::cpu {
namespace {

constexpr float kLargestFinite = std::numeric_limits<float>::max();
constexpr auto kTile = static_cast<std::size_t>(kTileSize);
static_assert(kBlock == 2 * kTile);

/// How far a guessed rank may be off, in standard deviations of the sample.
constexpr double kRankDeviations = 4.0;

/// Of a row's groups of 32 values, the share that has a value to list: from here on a branch for
/// four vectors is mispredicted too often.
constexpr double kManyReach = 1.0 / 2;

/// A list pays while it is shorter than this part of the row.
std::size_t list_limit(std::size_t n) { return std::max(kShortRow, n / 4); }

template <class T>
void grow(std::vector<T>& values, std::size_t n) {
  if (values.size() < n) values.resize(n);
}

}  // namespace

void IndexedRow::use(CpuTarget target) {
  passes_ = &passes_for(target);
  tile_passes_ = &tile_passes_for(target);
  bracket_passes_ = &bracket_passes_for(target);
}

RowStatus IndexedRow::filter(const float* x, std::size_t n, const RowParameters& parameters,
                             const FilterOptions& options) {
  begin_row(x, n, parameters, options.from_probs);
  const bool ties_of_largest = options.top_k_1_keeps_ties && parameters.top_k == 1;
  const bool greedy = is_greedy(parameters) && !ties_of_largest;
  const bool top_k = top_k_is_on(parameters.top_k, static_cast<std::int64_t>(n));
  const bool min_p = parameters.min_p > 0.0F;
  const bool top_p = parameters.top_p < 1.0F;
  if (!greedy && !top_k && !min_p) {
    if (!top_p) return index_row();
    if (!options.from_probs && n > kShortRow) return cut_unread_row_to_nucleus(parameters.top_p);
  }
  if (const RowStatus status = scan_row(); status != RowStatus::ok) return status;

  if (greedy) {
    greedy_token_ = first_at_maximum();
    return RowStatus::ok;
  }
  if (min_p) low_ = std::max(low_, min_p_threshold(parameters.min_p, max_, rule_));
  const float base = low_;
  if (top_k) {
    apply_top_k(static_cast<std::size_t>(parameters.top_k), options.tie_rule);
  } else if (min_p && collect_list(low_, kLargestFinite, list_limit(n))) {
    use_list(low_);
  }
  if (top_p) apply_top_p(parameters.top_p, options.filter_order, base);
  return RowStatus::ok;
}

void IndexedRow::begin_row(const float* x, std::size_t n, const RowParameters& parameters,
                           bool from_probs) {
  row_ = x;
  n_ = n;
  tiles_ = (n + kTile - 1) / kTile;
  blocks_ = (n + kBlock - 1) / kBlock;
  // Log-probabilities of a greedy row with temperature 0 are those at temperature 1.
  const float temperature = parameters.temperature == 0.0F ? 1.0F : parameters.temperature;
  temperature_ = static_cast<double>(temperature);
  rule_ = {from_probs, from_probs ? 1.0F : logit_scale(temperature)};
  has_groups_ = has_keys_ = has_sums_ = has_survivor_sums_ = false;
  greedy_token_ = -1;
  low_ = smallest_allowed();
  tie_end_ = n;
  use_row();
}

RowStatus IndexedRow::index_row() {
  grow(keys_, tiles_);
  grow(sums_, tiles_);
  const TileRow row{row_, DType::float32, static_cast<std::int64_t>(n_), nullptr};
  const RowStatus status = tile_passes_->index(row, rule_, keys_.data(), sums_.data());
  if (status != RowStatus::ok) return status;
  has_sums_ = true;
  return use_keys();
}

/// The row's maximum, and what brings sums of tiles into its unit.
RowStatus IndexedRow::use_keys() {
  const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(tiles_);
  const std::int32_t largest = *std::max_element(keys_.begin(), end);
  if (largest == kEmptyTileKey) return RowStatus::no_allowed_token;
  max_ = from_order_key(largest);
  if (max_ > kLargestFinite) return RowStatus::infinite_input;
  has_keys_ = true;
  row_octave_ = octave_of(max_);
  find_shifts();
  return RowStatus::ok;
}

RowStatus IndexedRow::scan_row() {
  grow(group_max_, blocks_ * kGroups);
  const RowScan found = passes_->scan(row_, n_, group_max_.data());
  has_groups_ = true;
  max_ = found.max;
  if (found.has_nan) return RowStatus::nan_input;
  if (max_ > kLargestFinite) return RowStatus::infinite_input;
  if (rule_.from_probs && passes_->count_at_least(row_, n_, 0.0F) != n_) {
    return RowStatus::negative_probability;
  }
  if (!(max_ >= low_)) return RowStatus::no_allowed_token;
  row_octave_ = octave_of(max_);
  return RowStatus::ok;
}

/// The shift of each tile whose key is known; -1 of an empty one.
void IndexedRow::find_shifts() {
  grow(shifts_, tiles_);
  if (rule_.from_probs || !float_octaves_are_exact(max_, rule_.scale)) {
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      const std::int32_t key = keys_[tile];
      shifts_[tile] =
          key == kEmptyTileKey ? -1 : row_shift(row_octave_, octave_of(from_order_key(key)));
    }
    return;
  }
  // Without a call for each: adding and taking away 1.5 2^52 rounds to the nearest integer, ties to
  // even, what is not below -2^51. What is, counts nothing, and an empty tile's -inf either.
  constexpr double kToInteger = 0x1.8p52;
  const auto scale = static_cast<double>(rule_.scale);
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    const double octaves = static_cast<double>(from_order_key(keys_[tile])) * scale;
    shifts_[tile] = row_shift(row_octave_, octaves + kToInteger - kToInteger);
  }
}

/// The maxima of groups of a row that was seen by its index alone.
void IndexedRow::scan_groups() {
  if (has_groups_) return;
  grow(group_max_, blocks_ * kGroups);
  passes_->scan(row_, n_, group_max_.data());
  has_groups_ = true;
}

float IndexedRow::smallest_allowed() const {
  return rule_.from_probs ? std::numeric_limits<float>::denorm_min() : -kLargestFinite;
}

std::int32_t IndexedRow::first_at_maximum() {
  grow(hot_blocks_, blocks_);
  passes_->blocks_at_least(group_max_.data(), blocks_, max_, hot_blocks_.data());
  const float* begin = row_ + hot_blocks_[0] * kBlock;
  return static_cast<std::int32_t>(std::find(begin, row_ + n_, max_) - row_);
}

// --- Lists ---------------------------------------------------------------------------------------

/// Lists the values in [low, high] of one tile at the end of the list; returns how many. `reach`:
/// the share of group maxima that are >= low.
std::size_t IndexedRow::collect_tile(std::size_t tile, float low, float high, double reach) {
  const float* values = row_ + tile * kTile;
  const std::size_t length = tile_length(tile);
  float* out = list_.data() + list_size_;
  return reach > kManyReach || high < max_ ? passes_->collect_many(values, length, low, high, out)
                                           : passes_->collect_few(values, length, low, out);
}

/// The tiles that may hold a value >= low; returns the share of the row's groups that do, of its
/// tiles where those alone are known.
double IndexedRow::find_hot_tiles(float low) {
  grow(hot_tiles_, 2 * blocks_);
  hot_tiles_size_ = 0;
  if (!has_groups_) {
    const std::int32_t low_key = order_key(low);
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      hot_tiles_[hot_tiles_size_] = static_cast<std::uint32_t>(tile);
      if (keys_[tile] >= low_key) ++hot_tiles_size_;
    }
    return static_cast<double>(hot_tiles_size_) / static_cast<double>(tiles_);
  }
  grow(hot_blocks_, blocks_);
  const std::size_t hot =
      passes_->blocks_at_least(group_max_.data(), blocks_, low, hot_blocks_.data());
  for (std::size_t i = 0; i < 2 * hot; ++i) {
    hot_tiles_[i] = hot_blocks_[i / 2] * 2 + static_cast<std::uint32_t>(i % 2);
  }
  hot_tiles_size_ = 2 * hot;
  if (hot > 0 && hot_tiles_[2 * hot - 1] == tiles_) --hot_tiles_size_;  // the last block has one
  const std::size_t groups = blocks_ * kGroups;
  return static_cast<double>(passes_->count_at_least(group_max_.data(), groups, low)) /
         static_cast<double>(groups);
}

/// Lists the values in [low, high]. False, and no list, when there are more than `limit`.
bool IndexedRow::collect_list(float low, float high, std::size_t limit) {
  const double reach = find_hot_tiles(low);
  list_runs_.clear();
  list_size_ = 0;
  reserve_with_slack(list_, std::min(limit, n_) + kTile);
  for (std::size_t i = 0; i < hot_tiles_size_; ++i) {
    const std::size_t tile = hot_tiles_[i];
    const std::size_t size = collect_tile(tile, low, high, reach);
    if (size == 0) continue;
    list_runs_.push_back({tile, list_size_});
    list_size_ += size;
    if (list_size_ > limit) return false;
  }
  return true;
}

void IndexedRow::use_list(float low) {
  on_list_ = true;
  list_low_ = low;
  tie_end_in_domain_ = list_size_;
  prefix_.clear();
}

void IndexedRow::use_row() {
  on_list_ = false;
  tie_end_in_domain_ = tie_end_;
  prefix_.clear();
}

std::size_t IndexedRow::tile_length(std::size_t tile) const {
  return std::min(kTile, n_ - tile * kTile);
}

std::size_t IndexedRow::run_length(std::size_t run) const {
  const std::size_t end = run + 1 < list_runs_.size() ? list_runs_[run + 1].begin : list_size_;
  return end - list_runs_[run].begin;
}

// --- top_k ---------------------------------------------------------------------------------------

void IndexedRow::apply_top_k(std::size_t k, TieRule tie_rule) {
  const float bound =
      bound_of_kth_largest(*passes_, group_max_.data(), blocks_ * kGroups, low_, max_, k, scratch_);
  const float list_from = std::max(low_, bound);
  if (bound == max_) {  // k values share the maximum: too many to list, perhaps
    low_ = max_;
  } else if (collect_list(list_from, kLargestFinite, list_limit(n_))) {
    low_ = list_size_ <= k
               ? list_from
               : kth_largest(*passes_, list_.data(), list_size_, list_from, max_, k, scratch_);
    use_list(list_from);
  } else {
    low_ = kth_largest_of_row(k);
    use_row();
  }
  if (tie_rule == TieRule::lowest_id) {
    const std::size_t kept = passes_->count_at_least(domain(), domain_size(), low_);
    const std::size_t above = passes_->count_at_least(domain(), domain_size(), next_above(low_));
    if (kept > k) cut_ties(k - above);
  }
}

/// The k-th largest value of a row whose candidates are too many to list; low_ when fewer than k
/// values reach it.
float IndexedRow::kth_largest_of_row(std::size_t k) {
  float bracket_low = low_;
  float bracket_high = max_;
  if (n_ > kShortRow) {
    take_sample(low_, max_);
    const double rank =
        static_cast<double>(k) * static_cast<double>(sample_taken_) / static_cast<double>(n_);
    const double margin = kRankDeviations * std::sqrt(rank) + 1.0;
    const auto sample_value = [&](double wanted, float otherwise) {
      if (wanted < 1.0 || wanted > static_cast<double>(sample_size_)) return otherwise;
      return kth_largest(*passes_, sample_.data(), sample_size_, low_, max_,
                         static_cast<std::size_t>(wanted), scratch_);
    };
    bracket_high = sample_value(rank - margin, max_);
    bracket_low = sample_value(rank + margin, low_);
  }
  std::size_t above = passes_->count_at_least(row_, n_, next_above(bracket_high));
  if (above >= k) {  // the guess was too low
    bracket_low = next_above(bracket_high);
    bracket_high = max_;
    above = 0;
  }
  collect_list(bracket_low, bracket_high, n_);
  if (above + list_size_ < k) {  // the guess was too high, or there are not that many
    above += list_size_;
    if (order_key(bracket_low) <= order_key(low_)) return low_;
    bracket_high = previous_below(bracket_low);
    bracket_low = low_;
    collect_list(bracket_low, bracket_high, n_);
    if (above + list_size_ < k) return low_;
  }
  return kth_largest(*passes_, list_.data(), list_size_, bracket_low, bracket_high, k - above,
                     scratch_);
}

/// Of the values equal to low_, only the first `ties_kept` stay (at least one).
void IndexedRow::cut_ties(std::size_t ties_kept) {
  const float* values = domain();
  std::size_t position = 0;
  for (std::size_t seen = 0; seen < ties_kept; ++position) seen += values[position] == low_ ? 1 : 0;
  tie_end_in_domain_ = position;
  tie_end_ = row_position(position - 1) + 1;
}

}  // namespace fairdraw::cpu
