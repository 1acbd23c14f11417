// What a filtered row gives: sums, draws, masks, probabilities, log-probabilities (indexed_row.h).
#include <algorithm>
#include <bit>
#include <limits>

#include "common/float_order.h"
#include "common/log_mass.h"
#include "common/wide_integers.h"
#include "cpu/distribution_weights.h"
#include "cpu/indexed_row.h"
#include "cpu/row_mass.h"

namespace fairdraw::cpu {
namespace {

constexpr auto kTile = static_cast<std::size_t>(kTileSize);

}  // namespace

// --- Units ---------------------------------------------------------------------------------------

double IndexedRow::octave_of(float x) const { return octaves_by(rule_, x).whole; }

/// Whether all values >= low are near (indexed_row.h). Octaves do not fall as values grow.
bool IndexedRow::is_near(float low) const {
  return row_octave_ - octave_of(low) <= static_cast<double>(kTileBits);
}

bool IndexedRow::all_survive() const {
  return greedy_token_ < 0 && low_ == smallest_allowed() && !ties_are_cut();
}

/// Whether the sums of the survivors of each tile of the row are.
bool IndexedRow::survivor_sums_are_known() const {
  return !on_list_ && (has_survivor_sums_ || (has_sums_ && all_survive()));
}

/// Keys and sums of all tiles.
void IndexedRow::need_tile_sums() {
  if (!has_sums_) index_row();
}

int IndexedRow::shift_of(float maximum) const { return row_shift(row_octave_, octave_of(maximum)); }

/// A tile that has an allowed token.
IndexedRow::Segment IndexedRow::segment_of_tile(std::size_t tile, bool near) const {
  const auto length = static_cast<std::uint32_t>(tile_length(tile));
  if (near) return {tile * kTile, length, kRowBits, max_};
  return {tile * kTile, length, shifts_[tile], from_order_key(keys_[tile])};
}

// --- Segments and prefix sums --------------------------------------------------------------------

void IndexedRow::build_segments() {
  segments_.clear();
  const bool near = is_near(low_);
  on_list_ ? segment_list(near, low_) : segment_row(near);
}

/// A list of the row's largest values, from `low` up or more.
void IndexedRow::segment_list(bool near, float low) {
  if (near) {
    for (std::size_t begin = 0; begin < list_size_; begin += kTile) {
      const std::size_t length = std::min(kTile, list_size_ - begin);
      segments_.push_back({begin, static_cast<std::uint32_t>(length), kRowBits, max_});
    }
    return;
  }
  // Runs of tiles share a segment while none of its values is cut off relative to the largest of
  // them: then each weighs the same in the row's unit as relative to its own tile. Where a tile may
  // be so low that it counts nothing, every run is a segment.
  const double low_octave = octave_of(low);
  const bool merges = row_octave_ - low_octave <= static_cast<double>(kRowBits);
  float near_low = low;  // values up to here are near `low`
  bool last_is_near = false;
  for (std::size_t run = 0; run < list_runs_.size(); ++run) {
    const std::size_t length = run_length(run);
    if (length == 0) continue;
    const float* values = list_.data() + list_runs_[run].begin;
    const float maximum = *std::max_element(values, values + length);
    bool is_near = merges && maximum <= near_low;
    if (merges && !is_near && octave_of(maximum) - low_octave <= static_cast<double>(kTileBits)) {
      near_low = maximum;
      is_near = true;
    }
    if (is_near && last_is_near && segments_.back().length + length <= kTile) {
      segments_.back().length += static_cast<std::uint32_t>(length);
      segments_.back().maximum = std::max(segments_.back().maximum, maximum);
    } else {
      segments_.push_back({list_runs_[run].begin, static_cast<std::uint32_t>(length), 0, maximum});
    }
    last_is_near = is_near;
  }
  for (Segment& segment : segments_) segment.shift = shift_of(segment.maximum);
}

/// Tiles that have a survivor; where their maxima are not known, all of them.
void IndexedRow::segment_row(bool near) {
  if (!near && !has_keys_) need_tile_sums();
  const std::int32_t low_key = order_key(low_);
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    if (has_keys_ && keys_[tile] < low_key) continue;
    segments_.push_back(segment_of_tile(tile, near && !has_keys_));
  }
}

/// How many of the domain's values from `begin` on lie before the place where ties are cut.
std::size_t IndexedRow::with_ties(std::size_t begin, std::size_t length) const {
  return std::clamp(tie_end_in_domain_, begin, begin + length) - begin;
}

/// Weight of a segment's survivors in the row's unit.
uint128_t IndexedRow::weight_of(const Segment& segment) const {
  const float* x = domain() + segment.begin;
  const std::size_t tied = with_ties(segment.begin, segment.length);
  std::uint64_t sum = tile_passes_->sum(x, tied, rule_, segment.maximum, low_);
  if (tied < segment.length) {
    sum += tile_passes_->sum(x + tied, segment.length - tied, rule_, segment.maximum,
                             next_above(low_));
  }
  return row_weight(sum, segment.shift);
}

/// Weights v of a segment's survivors; room for kTile + kTileSlack.
void IndexedRow::weigh(const Segment& segment, std::uint64_t* weights) const {
  const float* x = domain() + segment.begin;
  const std::size_t tied = with_ties(segment.begin, segment.length);
  tile_passes_->weigh(x, tied, rule_, segment.maximum, low_, weights);
  if (tied < segment.length) {
    tile_passes_->weigh(x + tied, segment.length - tied, rule_, segment.maximum, next_above(low_),
                        weights + tied);
  }
}

/// Prefix sums by segment; where the sums of survivors are known by tile, tiles are the segments.
void IndexedRow::build_prefix() {
  if (!prefix_.empty()) return;
  uint128_t before = 0;
  if (survivor_sums_are_known()) {
    segments_.clear();
    prefix_.resize(tiles_);
    const std::uint64_t* sums = has_survivor_sums_ ? survivor_sums_.data() : sums_.data();
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      prefix_[tile] = before += row_weight(sums[tile], shifts_[tile]);
    }
    return;
  }
  build_segments();
  for (const Segment& segment : segments_) prefix_.push_back(before += weight_of(segment));
}

std::int32_t IndexedRow::draw(std::uint64_t word) {
  if (greedy_token_ >= 0) return greedy_token_;
  build_prefix();
  const uint128_t place = multiply_high(word, prefix_.back());
  const auto found = std::upper_bound(prefix_.begin(), prefix_.end(), place);
  const auto index = static_cast<std::size_t>(found - prefix_.begin());
  const Segment segment =
      segments_.empty() ? segment_of_tile(index, /*near=*/false) : segments_[index];
  const uint128_t before = found == prefix_.begin() ? uint128_t{0} : *std::prev(found);
  // Below the segment's sum, so it has 64 bits.
  auto rest = static_cast<std::uint64_t>((place - before) >> segment.shift);
  std::uint64_t weights[kTile + kTileSlack];
  weigh(segment, weights);
  std::size_t position = 0;
  while (weights[position] <= rest) rest -= weights[position++];
  return static_cast<std::int32_t>(row_position(segment.begin + position));
}

/// Position in the row of a position of the domain.
std::size_t IndexedRow::row_position(std::size_t domain_position) const {
  if (!on_list_) return domain_position;
  const auto after = std::upper_bound(
      list_runs_.begin(), list_runs_.end(), domain_position,
      [](std::size_t position, const ListRun& run) { return position < run.begin; });
  const ListRun& run = *std::prev(after);
  std::size_t position = run.tile * kTile;
  for (std::size_t skip = domain_position - run.begin;; ++position) {
    if (row_[position] >= list_low_ && skip-- == 0) return position;
  }
}

/// Weight of all the row's values >= low.
uint128_t IndexedRow::weight_of_row_from(float low) {
  if (low == smallest_allowed()) return unfiltered_weight();
  const bool near = is_near(low);
  if (!near && !has_keys_) need_tile_sums();
  uint128_t total = 0;
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    if (has_keys_ && keys_[tile] < order_key(low)) continue;
    const Segment segment = segment_of_tile(tile, near);
    total += row_weight(
        tile_passes_->sum(row_ + segment.begin, segment.length, rule_, segment.maximum, low),
        segment.shift);
  }
  return total;
}

uint128_t IndexedRow::unfiltered_weight() {
  need_tile_sums();
  return weight_of_tiles(keys_.data(), sums_.data(), tiles_, rule_, row_octave_);
}

uint128_t IndexedRow::survivors_weight() {
  build_prefix();
  return prefix_.back();
}

// --- Outputs -------------------------------------------------------------------------------------

bool IndexedRow::keeps(std::int32_t token) const {
  if (greedy_token_ >= 0) return token == greedy_token_;
  const auto position = static_cast<std::size_t>(token);
  return row_[position] > low_ || (row_[position] == low_ && position < tie_end_);
}

std::int64_t IndexedRow::support_size() const {
  if (greedy_token_ >= 0) return 1;
  const float* x = domain();
  return static_cast<std::int64_t>(passes_->count_at_least(x, tie_end_in_domain_, low_) +
                                   passes_->count_at_least(x + tie_end_in_domain_,
                                                           domain_size() - tie_end_in_domain_,
                                                           next_above(low_)));
}

void IndexedRow::write_mask(std::uint32_t* words) {
  if (greedy_token_ >= 0) {
    std::fill_n(words, (n_ + 31) / 32, 0U);
    words[greedy_token_ / 32] = 1U << (greedy_token_ % 32);
    return;
  }
  for_each_tile([&](std::size_t tile, bool reaches) {
    const std::size_t length = tile_length(tile);
    std::uint32_t* out = words + tile * (kTile / 32);
    reaches ? passes_->mask_bits(row_ + tile * kTile, length, low_, out)
            : static_cast<void>(std::fill_n(out, (length + 31) / 32, 0U));
  });
  for (std::size_t i = tie_end_; i < n_; ++i) {
    if (row_[i] == low_) words[i / 32] &= ~(1U << (i % 32));
  }
}

void IndexedRow::list_survivors(std::vector<std::int32_t>& ids) {
  ids.clear();
  if (greedy_token_ >= 0) {
    ids.push_back(greedy_token_);
    return;
  }
  const std::size_t words = (n_ + 31) / 32;
  if (mask_.size() < words) mask_.resize(words);
  write_mask(mask_.data());
  for (std::size_t word = 0; word < words; ++word) {
    for (std::uint32_t rest = mask_[word]; rest != 0; rest &= rest - 1) {
      ids.push_back(static_cast<std::int32_t>(word * 32) + std::countr_zero(rest));
    }
  }
}

void IndexedRow::write_probabilities(float* probabilities) {
  if (greedy_token_ >= 0) {
    std::fill_n(probabilities, n_, 0.0F);
    probabilities[greedy_token_] = 1.0F;
    return;
  }
  const double total = nearest_double(survivors_weight());
  const bool near = is_near(low_);
  if (!near && !has_keys_) need_tile_sums();
  for_each_tile([&](std::size_t tile, bool reaches) {
    const std::size_t begin = tile * kTile;
    const std::size_t length = tile_length(tile);
    const Segment unit = reaches ? segment_of_tile(tile, near) : Segment{begin, 0, -1, 0};
    if (unit.shift < 0) {  // below the threshold, or too far below the maximum to weigh anything
      std::fill_n(probabilities + begin, length, 0.0F);
    } else {
      bracket_passes_->probabilities(row_ + begin, length, rule_, unit.maximum, low_, unit.shift,
                                     total, probabilities + begin);
    }
  });
  for (std::size_t i = tie_end_; i < n_; ++i) {
    if (row_[i] == low_) probabilities[i] = 0.0F;
  }
}

std::uint64_t IndexedRow::write_weights(std::uint64_t* weights) const {
  return write_weights_of(*tile_passes_, row_, n_, rule_, max_, low_, tie_end_, weights);
}

/// Calls use(tile, whether it may have a survivor), in order.
template <class Use>
void IndexedRow::for_each_tile(const Use& use) {
  if (has_keys_) {
    const std::int32_t low_key = order_key(low_);
    for (std::size_t tile = 0; tile < tiles_; ++tile) use(tile, keys_[tile] >= low_key);
    return;
  }
  if (hot_blocks_.size() < blocks_) hot_blocks_.resize(blocks_);
  const std::size_t hot =
      passes_->blocks_at_least(group_max_.data(), blocks_, low_, hot_blocks_.data());
  std::size_t next = 0;
  for (std::size_t tile = 0; tile < tiles_; ++tile) {
    while (next < hot && hot_blocks_[next] < tile / 2) ++next;
    use(tile, next < hot && hot_blocks_[next] == tile / 2);
  }
}

// --- Log-probabilities ---------------------------------------------------------------------------

float IndexedRow::logprob(std::int32_t token) {
  return static_cast<float>(
      log_probability(row_[token], max_, temperature_, unfiltered_log_mass()));
}

float IndexedRow::logprob_filtered(std::int32_t token) {
  return static_cast<float>(log_probability(row_[token], max_, temperature_, survivors_log_mass()));
}

double IndexedRow::unfiltered_log_mass() {
  return log_mass_of(unfiltered_weight(), max_, rule_.scale);
}

double IndexedRow::survivors_log_mass() {
  return greedy_token_ >= 0 ? 0.0 : log_mass_of(survivors_weight(), max_, rule_.scale);
}

ScannedRow IndexedRow::unfiltered_row() {
  scan_groups();
  ScannedRow row;
  row.x = row_;
  row.n = n_;
  row.group_max = group_max_.data();
  row.max = max_;
  row.low = smallest_allowed();
  row.tie_end = n_;
  if (on_list_) {
    row.list = list_.data();
    row.list_size = list_size_;
    row.list_low = list_low_;
  }
  return row;
}

ScannedRow IndexedRow::survivors_row() {
  ScannedRow row = unfiltered_row();
  row.low = greedy_token_ >= 0 ? max_ : low_;
  row.tie_end = greedy_token_ >= 0 ? static_cast<std::size_t>(greedy_token_) + 1 : tie_end_;
  return row;
}

}  // namespace fairdraw::cpu
