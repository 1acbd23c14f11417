#include "tests/tiles/tile_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "harness/inputs/narrow_floats.h"
#include "harness/inputs/random_rows.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t size_of(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

float rounded(DType dtype, float value) {
  if (dtype == DType::float16) return harness::from_float16(harness::to_float16(value));
  if (dtype == DType::bfloat16) return harness::from_bfloat16(harness::to_bfloat16(value));
  return value;
}

/// Shifts the values of each tile by a random multiple of `step`.
void step_tiles(harness::Dice& dice, RandomTileRow& row, float step) {
  for (std::size_t begin = 0; begin < row.values.size(); begin += kTileSize) {
    const float shift = step * static_cast<float>(dice.between(-3, 3));
    const std::size_t end = std::min(row.values.size(), begin + kTileSize);
    for (std::size_t i = begin; i < end; ++i) {
      const float shifted = rounded(row.dtype, row.values[i] + shift);
      if (std::isfinite(shifted)) row.values[i] = shifted;
    }
  }
}

void empty_a_tile(harness::Dice& dice, RandomTileRow& row) {
  const std::size_t begin = dice.below(row.values.size()) / kTileSize * kTileSize;
  const std::size_t end = std::min(row.values.size(), begin + kTileSize);
  const float nothing = row.input == TileInput::probs ? 0.0F : -kInfinity;
  std::fill(row.values.begin() + static_cast<std::ptrdiff_t>(begin),
            row.values.begin() + static_cast<std::ptrdiff_t>(end), nothing);
}

/// Returns the temperature at which the largest |x c| is about 2^21, where float arithmetic is no
/// longer used.
float temperature_at_the_end_of_floats(harness::Dice& dice, const RandomTileRow& row) {
  double largest = 0;
  for (const float value : row.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  }
  const double nearby = 1 + static_cast<double>(dice.between(-4, 4)) * 0x1p-23;
  const double temperature = 0x1.71547652b82fep0 * largest * 0x1p-21 * nearby;
  return static_cast<float>(std::clamp(temperature, 0x1p-126, 0x1p64));
}

float random_temperature(harness::Dice& dice, const RandomTileRow& row) {
  if (dice.once_in(6)) return temperature_at_the_end_of_floats(dice, row);
  return dice.pick({0x1p-126F, 0x1p-100F, 1e-30F, 1e-6F, 0.01F, 0.7F, 1.0F, 1.0F, 1.0F,
                    0x1.715476p0F /* c is 1 */, 2.0F, 100.0F, 1e15F, 0x1p64F});
}

Octaves octaves(const RandomTileRow& row, float value) {
  const float temperature = row.temperature == 0 ? 1.0F : row.temperature;
  return row.input == TileInput::probs ? octaves_of_probability(value)
                                       : octaves_of(value, logit_scale(temperature));
}

/// Returns whether a token with this value can be drawn.
bool has_weight(const RandomTileRow& row, float value) {
  return row.input == TileInput::probs ? value > 0 : value > -kInfinity;
}

/// Returns the largest allowed value of a tile, or NaN if there is none.
float largest_of_tile(const RandomTileRow& row, std::size_t tile) {
  float largest = kNan;
  const std::size_t end = std::min(row.values.size(), (tile + 1) * kTileSize);
  for (std::size_t i = tile * kTileSize; i < end; ++i) {
    if (!row.is_allowed(i) || !has_weight(row, row.values[i])) continue;
    if (!(largest >= row.values[i])) largest = row.values[i];
  }
  return largest;
}

RowStatus expected_status(const RandomTileRow& row) {
  const auto any = [&row](auto is) {
    return std::any_of(row.values.begin(), row.values.end(), is);
  };
  if (any([](float x) { return std::isnan(x); })) return RowStatus::nan_input;
  if (any([](float x) { return x == kInfinity; })) return RowStatus::infinite_input;
  if (row.input == TileInput::probs && any([](float x) { return x < 0; })) {
    return RowStatus::negative_probability;
  }
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    if (row.is_allowed(i) && has_weight(row, row.values[i])) return RowStatus::ok;
  }
  return RowStatus::no_allowed_token;
}

}  // namespace

void store(RandomTileRow& row, std::size_t shift) {
  const std::size_t size = size_of(row.dtype);
  row.shift = shift;
  row.memory.assign(shift + row.values.size() * size, 0xca);
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    std::uint8_t* const place = row.memory.data() + shift + i * size;
    if (row.dtype == DType::float32) {
      std::memcpy(place, &row.values[i], size);
      continue;
    }
    const std::uint16_t bits = row.dtype == DType::float16 ? harness::to_float16(row.values[i])
                                                           : harness::to_bfloat16(row.values[i]);
    std::memcpy(place, &bits, size);
  }
}

RandomTileRow tile_row_of(std::vector<float> logits, float temperature) {
  RandomTileRow row;
  row.values = std::move(logits);
  row.temperature = temperature;
  store(row, 0);
  return row;
}

RandomTileRow random_tile_row(std::uint64_t number, std::int64_t vocab) {
  harness::Dice dice(number);
  RandomTileRow row;
  row.number = number;
  row.input = dice.once_in(4) ? TileInput::probs : TileInput::logits;
  row.dtype = dice.pick({DType::float32, DType::float32, DType::float16, DType::bfloat16});
  const bool probs = row.input == TileInput::probs;
  row.values = probs ? harness::random_probabilities(dice, vocab, row.dtype)
                     : harness::random_logits(dice, vocab, row.dtype);
  if (!probs && dice.once_in(3)) {
    step_tiles(dice, row, dice.pick({1.0F, 10.0F, 22.0F, 33.5F, 1000.0F, 1e7F, 1e37F}));
  }
  if (dice.once_in(3)) empty_a_tile(dice, row);
  if (dice.once_in(3)) {
    row.allowed = harness::random_allowed(dice, vocab);
    const std::size_t id = dice.below(row.values.size());
    // The value is detected although its token cannot be drawn. Such values are rare, because the
    // sums of a failed row are not compared.
    if (!row.is_allowed(id) && dice.once_in(8)) row.values[id] = dice.pick({kNan, kInfinity});
  }
  row.temperature = random_temperature(dice, row);
  store(row, dice.once_in(2) ? 0 : dice.below(64));
  return row;
}

ExpectedIndex expected_index(const RandomTileRow& row) {
  ExpectedIndex expected;
  expected.status = expected_status(row);
  const auto tiles = static_cast<std::size_t>(tiles_of(row.vocab()));
  expected.keys.assign(tiles, kEmptyTileKey);
  expected.sums.assign(tiles, 0);
  if (expected.status != RowStatus::ok) return expected;
  for (std::size_t t = 0; t < tiles; ++t) {
    const float largest = largest_of_tile(row, t);
    if (std::isnan(largest)) continue;
    expected.keys[t] = order_key(largest);
    for (const std::uint64_t v : expected_weights(row, static_cast<std::int64_t>(t))) {
      expected.sums[t] += v;
    }
  }
  return expected;
}

std::vector<std::uint64_t> expected_weights(const RandomTileRow& row, std::int64_t tile) {
  std::vector<std::uint64_t> weights(kTileSize, 0);
  const auto t = static_cast<std::size_t>(tile);
  const float largest = largest_of_tile(row, t);
  if (std::isnan(largest)) return weights;
  const double top = octaves(row, largest).whole;
  for (std::size_t i = 0; i < kTileSize && t * kTileSize + i < row.values.size(); ++i) {
    const float value = row.values[t * kTileSize + i];
    if (!row.is_allowed(t * kTileSize + i) || !has_weight(row, value)) continue;
    weights[i] = tile_weight(octaves(row, value), top);
  }
  return weights;
}

std::string describe(const RandomTileRow& row) {
  return fmt::format("row {} of {} {} {}, T = {:a}, {} bytes into its memory, {}", row.number,
                     row.vocab(), to_string(row.dtype),
                     row.input == TileInput::probs ? "probabilities" : "logits", row.temperature,
                     row.shift, row.allowed.empty() ? "nothing banned" : "with bans");
}

}  // namespace fairdraw::suites
