#include "cpu/proposer.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "common/float_order.h"

namespace fairdraw::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

void Proposer::begin(const RowIndex& row, float low, float top_p) {
  begin_empty(low, top_p);
  const std::int32_t low_key = order_key(low);
  for (std::size_t tile = 0; tile < row.tiles; ++tile) {
    if (row.keys[tile] >= low_key) {
      add(row.segment_of_tile(tile, /*near=*/false), row.keys[tile], row.sums[tile]);
    }
  }
}

void Proposer::begin_scanned(const RowIndex& row, float low, float top_p) {
  begin_empty(low, top_p);
  const std::int32_t low_key = order_key(low);
  for (std::size_t i = 0; i < row.hot_tiles_size; ++i) {
    const std::size_t begin = row.hot_tiles[i] * kTile;
    const std::size_t length = row.tile_length(row.hot_tiles[i]);
    std::int32_t key = 0;
    std::uint64_t sum = 0;
    row.tile_passes->index({row.x + begin, DType::float32, static_cast<std::int64_t>(length)},
                           row.rule, &key, &sum);
    if (key < low_key) continue;
    const float maximum = from_order_key(key);
    add({begin, static_cast<std::uint32_t>(length), row.shift_of(maximum), maximum}, key, sum);
  }
}

void Proposer::begin_empty(float low, float top_p) {
  tiles_.clear();
  low_ = low;
  top_p_ = top_p;
  target_.reset();
  accepted_ = kInfinity;
  rejected_ = previous_below(low);
}

void Proposer::know_threshold(float threshold) {
  accepted_ = threshold;
  rejected_ = previous_below(threshold);
}

void Proposer::add(const Segment& segment, std::int32_t key, std::uint64_t sum) {
  const uint128_t before = tiles_.empty() ? uint128_t{0} : tiles_.back().end;
  tiles_.push_back({segment, key, sum, before + row_weight(sum, segment.shift)});
}

std::optional<std::int32_t> Proposer::draw(const RowIndex& row, const DrawWords& words) {
  for (std::uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    const std::size_t proposed = propose(row, words.of_attempt(attempt));
    if (accepts(row, row.x[proposed])) return static_cast<std::int32_t>(proposed);
  }
  return {};
}

/// Returns the token that is proposed, which is at the position floor(word Z' / 2^64) of the mass.
std::size_t Proposer::propose(const RowIndex& row, std::uint64_t word) const {
  const uint128_t place = multiply_high(word, tiles_.back().end);
  const auto found =
      std::upper_bound(tiles_.begin(), tiles_.end(), place,
                       [](uint128_t position, const Tile& tile) { return position < tile.end; });
  const uint128_t before = found == tiles_.begin() ? uint128_t{0} : std::prev(found)->end;
  return row.token_in(found->segment, place - before);
}

bool Proposer::accepts(const RowIndex& row, float x) {
  if (x >= accepted_) return true;
  if (x <= rejected_) return false;
  const bool accepted = is_among(row, x);
  (accepted ? accepted_ : rejected_) = x;
  return accepted;
}

uint128_t Proposer::kept_by_min_p(const RowIndex& row) const {
  if (low_ == row.smallest_allowed()) return tiles_.back().end;
  uint128_t mass = 0;
  for (const Tile& tile : tiles_) {
    const Segment& segment = tile.segment;
    mass += row_weight(row.tile_passes->sum(row.x + segment.begin, segment.length, row.rule,
                                            segment.maximum, low_),
                       segment.shift);
  }
  return mass;
}

/// Returns whether the values larger than x together weigh less than the target. Precondition:
/// min_p keeps all values larger than x.
bool Proposer::is_among(const RowIndex& row, float x) {
  if (!target_) target_ = nucleus_target(top_p_, kept_by_min_p(row));
  const std::int32_t key = order_key(x);
  uint128_t most = 0;
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    if (tiles_[tile].key > key) most += weight_of(tile);
  }
  uint128_t least = 0;
  const float above = next_above(x);
  for (std::size_t tile = 0; most >= *target_ && least < *target_; ++tile) {
    if (tiles_[tile].key <= key) continue;
    const Segment& segment = tiles_[tile].segment;
    const uint128_t found = row_weight(row.tile_passes->sum(row.x + segment.begin, segment.length,
                                                            row.rule, segment.maximum, above),
                                       segment.shift);
    least += found;
    most -= weight_of(tile) - found;
  }
  return most < *target_;
}

}  // namespace fairdraw::cpu
