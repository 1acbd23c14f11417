#include "cpu/row_index.h"

#include <algorithm>
#include <limits>

#include "cpu/row_mass.h"

namespace fairdraw::cpu {
namespace {

constexpr float kLargestFinite = std::numeric_limits<float>::max();

}  // namespace

std::size_t position_in(const std::uint64_t* weights, uint128_t rest, int shift) {
  auto left = static_cast<std::uint64_t>(rest >> shift);  // below the sum of the segment, which has
                                                          // 64 bits
  std::size_t position = 0;
  while (weights[position] <= left) left -= weights[position++];
  return position;
}

void RowIndex::use(CpuTarget target) {
  passes = &passes_for(target);
  tile_passes = &tile_passes_for(target);
  bracket_passes = &bracket_passes_for(target);
}

void RowIndex::begin(const float* values, std::size_t n, const WeightRule& weights) {
  x = values;
  size = n;
  tiles = (n + kTile - 1) / kTile;
  blocks = (n + kBlock - 1) / kBlock;
  rule = weights;
  has_groups = has_keys = has_sums = false;
}

RowStatus RowIndex::build() {
  grow(keys, tiles);
  grow(sums, tiles);
  const RowInMemory row{x, DType::float32, static_cast<std::int64_t>(size), nullptr};
  const RowStatus status = tile_passes->index(row, rule, keys.data(), sums.data());
  if (status != RowStatus::ok) return status;
  has_sums = true;
  return use_keys();
}

RowStatus RowIndex::use_keys() {
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(tiles);
  const std::int32_t largest = *std::max_element(keys.begin(), end);
  if (largest == kEmptyTileKey) return RowStatus::no_allowed_token;
  max = from_order_key(largest);
  if (max > kLargestFinite) return RowStatus::infinite_input;
  has_keys = true;
  octave = octave_of(max);
  find_shifts();
  return RowStatus::ok;
}

RowStatus RowIndex::scan(float low) {
  grow(group_max, blocks * kGroups);
  const RowScan found = passes->scan(x, size, group_max.data());
  has_groups = true;
  max = found.max;
  if (found.has_nan) return RowStatus::nan_input;
  if (max > kLargestFinite) return RowStatus::infinite_input;
  if (rule.from_probs && passes->count_at_least(x, size, 0.0F) != size) {
    return RowStatus::negative_probability;
  }
  if (!(max >= low)) return RowStatus::no_allowed_token;
  octave = octave_of(max);
  return RowStatus::ok;
}

void RowIndex::find_shifts() {
  grow(shifts, tiles);
  if (rule.from_probs || !float_octaves_are_exact(max, rule.scale)) {
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      shifts[tile] = keys[tile] == kEmptyTileKey ? -1 : shift_of(from_order_key(keys[tile]));
    }
    return;
  }
  // The octaves are computed here for speed: adding and subtracting 1.5 2^52 rounds values from
  // -2^51 up to the nearest integer, with ties to even. Lower values have the weight 0, and so has
  // the -inf of an empty tile.
  constexpr double kToInteger = 0x1.8p52;
  const auto scale = static_cast<double>(rule.scale);
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const double octaves = static_cast<double>(from_order_key(keys[tile])) * scale;
    shifts[tile] = row_shift(octave, octaves + kToInteger - kToInteger);
  }
}

void RowIndex::need_groups() {
  if (has_groups) return;
  grow(group_max, blocks * kGroups);
  passes->scan(x, size, group_max.data());
  has_groups = true;
}

void RowIndex::need_sums() {
  if (!has_sums) build();
}

float RowIndex::smallest_allowed() const {
  return rule.from_probs ? std::numeric_limits<float>::denorm_min() : -kLargestFinite;
}

std::size_t RowIndex::tile_length(std::size_t tile) const {
  return std::min(kTile, size - tile * kTile);
}

Segment RowIndex::segment_of_tile(std::size_t tile, bool near) const {
  const auto length = static_cast<std::uint32_t>(tile_length(tile));
  if (near) return {tile * kTile, length, kRowBits, max};
  return {tile * kTile, length, shifts[tile], from_order_key(keys[tile])};
}

std::size_t RowIndex::token_in(const Segment& tile, uint128_t rest) const {
  std::uint64_t weights[kTile + kTileSlack];
  tile_passes->weigh(x + tile.begin, tile.length, rule, tile.maximum, smallest_allowed(), weights);
  return tile.begin + position_in(weights, rest, tile.shift);
}

std::uint64_t RowIndex::weight_in_tile(std::size_t tile, float value) const {
  const float maximum = from_order_key(keys[tile]);
  return value <= maximum ? tile_passes->sum(&value, 1, rule, maximum, value) : 0;
}

uint128_t RowIndex::total() {
  need_sums();
  return weight_of_tiles(keys.data(), sums.data(), tiles, rule, octave);
}

uint128_t RowIndex::weight_from(float low) {
  if (low == smallest_allowed()) return total();
  const bool near = is_near(low);
  if (!near && !has_keys) need_sums();
  uint128_t weight = 0;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    if (has_keys && keys[tile] < order_key(low)) continue;
    const Segment segment = segment_of_tile(tile, near);
    weight +=
        row_weight(tile_passes->sum(x + segment.begin, segment.length, rule, segment.maximum, low),
                   segment.shift);
  }
  return weight;
}

std::size_t RowIndex::find_hot_blocks(float low) {
  grow(hot_blocks_, blocks);
  return passes->blocks_at_least(group_max.data(), blocks, low, hot_blocks_.data());
}

double RowIndex::find_hot_tiles(float low) {
  grow(hot_tiles, 2 * blocks);
  hot_tiles_size = 0;
  if (!has_groups) {
    const std::int32_t low_key = order_key(low);
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      hot_tiles[hot_tiles_size] = static_cast<std::uint32_t>(tile);
      if (keys[tile] >= low_key) ++hot_tiles_size;
    }
    return static_cast<double>(hot_tiles_size) / static_cast<double>(tiles);
  }
  const std::size_t hot = find_hot_blocks(low);
  for (std::size_t i = 0; i < 2 * hot; ++i) {
    hot_tiles[i] = hot_blocks_[i / 2] * 2 + static_cast<std::uint32_t>(i % 2);
  }
  hot_tiles_size = 2 * hot;
  // The number of tiles is odd, so the last pair has only one tile.
  if (hot > 0 && hot_tiles[2 * hot - 1] == tiles) --hot_tiles_size;
  const std::size_t groups = blocks * kGroups;
  return static_cast<double>(passes->count_at_least(group_max.data(), groups, low)) /
         static_cast<double>(groups);
}

std::int32_t RowIndex::first_at_maximum() {
  find_hot_blocks(max);
  const float* begin = x + hot_blocks_[0] * kBlock;
  return static_cast<std::int32_t>(std::find(begin, x + size, max) - x);
}

}  // namespace fairdraw::cpu
