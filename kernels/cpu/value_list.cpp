#include "cpu/value_list.h"

#include <algorithm>
#include <iterator>

namespace fairdraw::cpu {
namespace {

/// Part of a row's groups of 32 values that contain a value to list. Above this part, the branch
/// that is taken once for four vectors is mispredicted too often.
constexpr double kManyReach = 1.0 / 2;

}  // namespace

bool ValueList::collect(RowIndex& row, float low, float high, std::size_t limit) {
  const double reach = row.find_hot_tiles(low);
  const bool many = reach > kManyReach || high < row.max;
  runs_.clear();
  size_ = 0;
  reserve_with_slack(values_, std::min(limit, row.size) + kTile);
  for (std::size_t i = 0; i < row.hot_tiles_size; ++i) {
    const std::size_t tile = row.hot_tiles[i];
    const float* x = row.x + tile * kTile;
    const std::size_t length = row.tile_length(tile);
    float* out = values_.data() + size_;
    const std::size_t size = many ? row.passes->collect_many(x, length, low, high, out)
                                  : row.passes->collect_few(x, length, low, out);
    if (size == 0) continue;
    runs_.push_back({tile, size_});
    size_ += size;
    if (size_ > limit) return false;
  }
  return true;
}

float* ValueList::room_for(std::size_t n) {
  reserve_with_slack(values_, n);
  return values_.data();
}

void ValueList::take(const RowIndex& row, const std::uint32_t* run_begin, std::size_t size) {
  size_ = size;
  runs_.clear();
  for (std::size_t tile = 0; tile < row.tiles; ++tile) runs_.push_back({tile, run_begin[tile]});
}

std::size_t ValueList::run_length(std::size_t run) const {
  const std::size_t end = run + 1 < runs_.size() ? runs_[run + 1].begin : size_;
  return end - runs_[run].begin;
}

std::size_t ValueList::row_position(const RowIndex& row, std::size_t position, float low) const {
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), position,
                       [](std::size_t wanted, const Run& run) { return wanted < run.begin; });
  const Run& run = *std::prev(after);
  std::size_t in_row = run.tile * kTile;
  for (std::size_t skip = position - run.begin;; ++in_row) {
    if (row.x[in_row] >= low && skip-- == 0) return in_row;
  }
}

void ValueList::add_segments(const RowIndex& row, float low, std::vector<Segment>& segments) const {
  if (row.is_near(low)) {
    for (std::size_t begin = 0; begin < size_; begin += kTile) {
      const std::size_t length = std::min(kTile, size_ - begin);
      segments.push_back({begin, static_cast<std::uint32_t>(length), kRowBits, row.max});
    }
    return;
  }
  // Runs of tiles share a segment if none of their values loses bits relative to the largest of
  // them, because then each value has the same weight in the row's unit as relative to its own
  // tile. If a tile may be so low that it has no weight in the row, every run is a segment of its
  // own.
  const double low_octave = row.octave_of(low);
  const bool merges = row.octave - low_octave <= static_cast<double>(kRowBits);
  float near_low = low;  // values up to `near_low` are near `low`
  bool last_is_near = false;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    const std::size_t length = run_length(run);
    if (length == 0) continue;
    const float* values = values_.data() + runs_[run].begin;
    const float maximum = *std::max_element(values, values + length);
    bool is_near = merges && maximum <= near_low;
    if (merges && !is_near &&
        row.octave_of(maximum) - low_octave <= static_cast<double>(kTileBits)) {
      near_low = maximum;
      is_near = true;
    }
    if (is_near && last_is_near && segments.back().length + length <= kTile) {
      segments.back().length += static_cast<std::uint32_t>(length);
      segments.back().maximum = std::max(segments.back().maximum, maximum);
    } else {
      segments.push_back({runs_[run].begin, static_cast<std::uint32_t>(length), 0, maximum});
    }
    last_is_near = is_near;
  }
  for (Segment& segment : segments) segment.shift = row.shift_of(segment.maximum);
}

}  // namespace fairdraw::cpu
