// Implements the passes over tiles in portable C++, by the definition of common/tile_weights.h,
// value by value and with doubles. The passes give the same bits on any machine, but are slow if
// the fused multiply-add is a library call.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/passes/passes.h"
#include "cpu/passes/tile_passes.h"

namespace fairdraw::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns the value that stands for a banned token, which no draw can return.
float banned_value(const WeightRule& rule) { return rule.from_probs ? 0.0F : -kInfinity; }

std::int64_t tile_length(const RowInMemory& row, std::int64_t tile) {
  return std::min<std::int64_t>(kTileSize, row.vocab - tile * kTileSize);
}

/// Converts the values of a tile that are inside the row to float32, including banned values.
void convert(const RowInMemory& row, std::int64_t tile, float* out) {
  const auto n = static_cast<std::size_t>(tile_length(row, tile));
  const std::size_t value_size = row.dtype == DType::float32 ? 4 : 2;
  const auto* bytes = static_cast<const std::uint8_t*>(row.data) +
                      static_cast<std::size_t>(tile) * kTileSize * value_size;
  if (row.dtype == DType::float32) {
    std::memcpy(out, bytes, n * value_size);
    return;
  }
  std::uint16_t narrow[kTileSize];
  std::memcpy(narrow, bytes, n * value_size);
  const auto widen =
      row.dtype == DType::float16 ? kScalarPasses.from_float16 : kScalarPasses.from_bfloat16;
  widen(narrow, n, out);
}

/// Replaces banned tokens of a converted tile, and fills the tile with banned values up to
/// kTileSize.
void ban(const RowInMemory& row, const WeightRule& rule, std::int64_t tile, float* values) {
  const auto n = tile_length(row, tile);
  std::fill(values + n, values + kTileSize, banned_value(rule));
  if (row.allowed == nullptr) return;
  const std::uint32_t* words = row.allowed + tile * (kTileSize / 32);
  for (std::int64_t i = 0; i < n; ++i) {
    if (((words[i / 32] >> (i % 32)) & 1U) == 0) values[i] = banned_value(rule);
  }
}

std::uint64_t weight_of(float value, const WeightRule& rule, const Octaves& maximum) {
  const bool can_be_drawn = rule.from_probs ? value > 0 : value > -kInfinity;
  return can_be_drawn ? tile_weight(octaves_by(rule, value), maximum.whole) : 0;
}

void weigh(const float* x, std::size_t n, const WeightRule& rule, float maximum, float low,
           std::uint64_t* out) {
  const Octaves top = octaves_by(rule, maximum);
  for (std::size_t i = 0; i < n; ++i) out[i] = x[i] >= low ? weight_of(x[i], rule, top) : 0;
}

std::uint64_t sum(const float* x, std::size_t n, const WeightRule& rule, float maximum, float low) {
  const Octaves top = octaves_by(rule, maximum);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < n; ++i) total += x[i] >= low ? weight_of(x[i], rule, top) : 0;
  return total;
}

const float* read(const RowInMemory& row, const WeightRule& rule, std::int64_t tile,
                  float* buffer) {
  convert(row, tile, buffer);
  ban(row, rule, tile, buffer);
  return buffer;
}

RowStatus index(const RowInMemory& row, const WeightRule& rule, std::int32_t* keys,
                std::uint64_t* sums) {
  RowFindings found;
  for (std::int64_t tile = 0; tile < tiles_of(row.vocab); ++tile) {
    float values[kTileSize];
    convert(row, tile, values);
    for (std::int64_t i = 0; i < tile_length(row, tile); ++i) {
      found.nan |= std::isnan(values[i]);
      found.infinite |= values[i] == kInfinity;
      found.negative |= rule.from_probs && values[i] < 0;
    }
    ban(row, rule, tile, values);
    const float maximum = *std::max_element(values, values + kTileSize);
    const bool empty = !(maximum > banned_value(rule)) || maximum == kInfinity;
    keys[tile] = empty ? kEmptyTileKey : order_key(maximum);
    sums[tile] = empty ? 0 : sum(values, kTileSize, rule, maximum, -kInfinity);
    found.allowed |= !empty;
  }
  return status_of(found);
}

}  // namespace

const TilePasses kScalarTilePasses = TilePasses{index, read, sum, weigh};

}  // namespace fairdraw::cpu
