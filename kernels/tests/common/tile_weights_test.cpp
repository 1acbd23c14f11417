// Weights by tiles (tile_weights.h) are compared with rows computed in fractions: every number of a
// tile, in float and in double arithmetic, the row's sums, and the draw that the header defines,
// tile by tile. The GPU runs the same functions.
#include "common/tile_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "common/wide_integers.h"
#include "reference/tests/tile_answers.h"

namespace fairdraw::suites {
namespace {

using reference::TileAnswer;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The tokens of one tile, and their weights by the header's functions.
struct WeighedTile {
  float maximum = -kInfinity;
  double octave = 0;
  std::vector<std::uint64_t> weights;  ///< 0 for banned tokens
  std::uint64_t sum = 0;
};

std::vector<bool> allowed_of(const TileAnswer& answer, std::size_t first, std::size_t last) {
  std::vector<bool> allowed;
  for (std::size_t id = first; id < last; ++id) {
    const float value = answer.values[id];
    allowed.push_back(answer.is_allowed(id) &&
                      (answer.from_probs ? value > 0 : value != -kInfinity));
  }
  return allowed;
}

float scale_of(const TileAnswer& answer) {
  const float temperature = answer.parameters.temperature;
  return logit_scale(temperature == 0 ? 1 : temperature);
}

/// Computes the weights of a tile by the definition.
WeighedTile weigh(const TileAnswer& answer, std::size_t first, std::size_t last) {
  const auto octaves = [&answer](float value) {
    return answer.from_probs ? octaves_of_probability(value) : octaves_of(value, scale_of(answer));
  };
  const std::vector<bool> allowed = allowed_of(answer, first, last);
  WeighedTile tile;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i]) tile.maximum = std::max(tile.maximum, answer.values[first + i]);
  }
  if (tile.maximum == -kInfinity) {
    tile.weights.assign(allowed.size(), 0);
    return tile;
  }
  tile.octave = octaves(tile.maximum).whole;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    const float value = answer.values[first + i];
    tile.weights.push_back(allowed[i] ? tile_weight(octaves(value), tile.octave) : 0);
    tile.sum += tile.weights.back();
  }
  return tile;
}

/// Returns a tile's sum in float arithmetic. Precondition: float arithmetic is exact for the tile.
/// Banned tokens have the logit -inf.
std::uint64_t float_sum(const TileAnswer& answer, std::size_t first, float maximum,
                        std::span<const std::uint64_t> weights) {
  const float scale = scale_of(answer);
  const std::vector<bool> allowed = allowed_of(answer, first, first + weights.size());
  const float origin = float_octave_origin(maximum, scale);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float logit = allowed[i] ? answer.values[first + i] : -kInfinity;
    const std::uint64_t weight = float_tile_weight(float_octaves_of(logit, scale), origin);
    EXPECT_EQ(weight, weights[i]) << first + i;
    sum += weight;
  }
  return sum;
}

std::vector<WeighedTile> weigh_row(const TileAnswer& answer) {
  std::vector<WeighedTile> tiles;
  for (std::size_t first = 0; first < answer.values.size(); first += kTileSize) {
    tiles.push_back(weigh(answer, first, std::min(first + kTileSize, answer.values.size())));
  }
  return tiles;
}

/// Returns the shift of each tile into the row; -1 for a tile without an allowed token.
std::vector<int> row_shifts(const std::vector<WeighedTile>& tiles) {
  double row_octave = -std::numeric_limits<double>::infinity();
  for (const WeighedTile& tile : tiles) {
    if (tile.maximum != -kInfinity) row_octave = std::max(row_octave, tile.octave);
  }
  std::vector<int> shifts;
  for (const WeighedTile& tile : tiles) {
    shifts.push_back(tile.maximum == -kInfinity ? -1 : row_shift(row_octave, tile.octave));
  }
  return shifts;
}

/// Draws from a row without filters, as tile_weights.h defines it.
std::int32_t draw(const std::vector<WeighedTile>& tiles, const std::vector<int>& shifts,
                  uint128_t total, std::uint64_t word) {
  uint128_t position = multiply_high(word, total);
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const uint128_t weight = row_weight(tiles[t].sum, shifts[t]);
    if (position >= weight) {
      position -= weight;
      continue;
    }
    auto left = static_cast<std::uint64_t>(position >> shifts[t]);
    std::size_t i = 0;
    for (; left >= tiles[t].weights[i]; ++i) left -= tiles[t].weights[i];
    return static_cast<std::int32_t>(t * kTileSize + i);
  }
  return -1;
}

TEST(TileWeights, AreTheKnownAnswersOnBothWaysOfArithmetic) {
  int by_float = 0;
  int by_double_alone = 0;
  for (const TileAnswer& answer : reference::tile_answers()) {
    SCOPED_TRACE(answer.name);
    const std::vector<WeighedTile> tiles = weigh_row(answer);
    ASSERT_EQ(tiles.size(), answer.sums.size());
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      EXPECT_EQ(tiles[t].sum, answer.sums[t]) << "tile " << t;
      EXPECT_EQ(tiles[t].maximum, answer.maxima[t].value_or(-kInfinity)) << "tile " << t;
      if (!answer.octaves[t].has_value()) continue;
      EXPECT_EQ(tiles[t].octave, *answer.octaves[t]) << "tile " << t;
      if (answer.from_probs) continue;
      if (!float_octaves_are_exact(tiles[t].maximum, scale_of(answer))) {
        ++by_double_alone;
        continue;
      }
      ++by_float;
      EXPECT_EQ(float_sum(answer, t * kTileSize, tiles[t].maximum, tiles[t].weights),
                answer.sums[t])
          << "tile " << t;
    }
  }
  // The random rows include rows of a moderate temperature, and rows for double arithmetic, which
  // lie at least 2^21 octaves from 0 at both ends of a row.
  EXPECT_GE(by_float, 80);
  EXPECT_GE(by_double_alone, 5);
}

TEST(TileWeights, OfARowAreTheKnownAnswers) {
  int drawn = 0;
  for (const TileAnswer& answer : reference::tile_answers()) {
    SCOPED_TRACE(answer.name);
    const std::vector<WeighedTile> tiles = weigh_row(answer);
    const std::vector<int> shifts = row_shifts(tiles);
    uint128_t total = 0;
    for (std::size_t t = 0; t < tiles.size(); ++t) total += row_weight(tiles[t].sum, shifts[t]);
    EXPECT_EQ(reference::to_string(total), reference::to_string(answer.total_unfiltered));
    for (std::size_t id = 0; id < answer.weights.size(); ++id) {
      EXPECT_EQ(reference::to_string(row_weight(tiles[0].weights[id], shifts[0])),
                reference::to_string(answer.weights[id]));
    }
    if (answer.total != answer.total_unfiltered) continue;  // the tested header has no filters
    for (const auto& [word, token] : answer.draws) {
      EXPECT_EQ(draw(tiles, shifts, total, word), token) << word;
      ++drawn;
    }
  }
  EXPECT_GE(drawn, 500);
}

// A tile's maximum and another token of the tile have any two logits at any temperature, including
// subnormal and huge ones.
TEST(TileWeights, OfAnyLogitsAreTheModels) {
  std::mt19937_64 random(1);
  const auto finite = [&random] {
    const auto bits = static_cast<std::uint32_t>(random());
    return std::bit_cast<float>((bits & 0x7f800000U) == 0x7f800000U ? bits ^ 0x40000000U : bits);
  };
  int weightless = 0;
  constexpr int kPairs = 100000;
  for (int i = 0; i < kPairs; ++i) {
    // The exponents range from 2^-126 to 2^64; most often the temperature is one at which a logit
    // of 1 is a few octaves.
    const int exponent = i % 4 == 0 ? static_cast<int>(random() % 190) - 126 : i % 5 - 2;
    const float temperature =
        std::ldexp(1 + static_cast<float>(random() >> 41) * 0x1p-23F, exponent);
    const float scale = logit_scale(temperature);
    ASSERT_EQ(scale, reference::octaves_per_logit(temperature));
    const float maximum = finite();
    const float other = finite();
    // the distance is small as often as large
    const float distance = std::abs(other) / std::abs(finite());
    const float logit = i % 2 == 0 ? std::min(maximum, other) : maximum - distance;
    if (!std::isfinite(logit) || logit > maximum) continue;
    const reference::TokenOctaves expected = reference::octaves_of_logit(logit, scale);
    const Octaves token = octaves_of(logit, scale);
    ASSERT_EQ(token.whole, expected.whole) << logit << " at " << temperature;
    ASSERT_EQ(token.significand, expected.significand) << logit << " at " << temperature;
    const double octave = octaves_of(maximum, scale).whole;
    const std::uint64_t weight = reference::weight_in_tile(expected, octave);
    ASSERT_EQ(tile_weight(token, octave), weight) << logit << " at " << temperature;
    if (float_octaves_are_exact(maximum, scale)) {
      ASSERT_EQ(
          float_tile_weight(float_octaves_of(logit, scale), float_octave_origin(maximum, scale)),
          weight)
          << logit << " at " << temperature;
    }
    weightless += weight == 0 ? 1 : 0;
  }
  // Tokens with and without weight both occur often.
  EXPECT_GT(weightless, kPairs / 10);
  EXPECT_LT(weightless, kPairs - kPairs / 10);
}

// The header states that these values weigh 0.
TEST(TileWeights, OfMinusInfinityAndNanAreZero) {
  for (const float maximum : {0.0F, -0x1p20F, 0x1p20F}) {
    const float origin = float_octave_origin(maximum, 1.0F);
    for (const float logit :
         {-kInfinity, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::quiet_NaN(),
          -std::numeric_limits<float>::quiet_NaN()}) {
      EXPECT_EQ(float_tile_weight(float_octaves_of(logit, 1.0F), origin), 0U) << maximum << logit;
    }
  }
}

TEST(TileWeights, OfTilesFarBelowAreZero) {
  // The largest sum is that of 256 tokens with the largest significand.
  constexpr std::uint64_t kLargestSum = 256 * (std::uint64_t{11863282} << kTileBits);
  EXPECT_EQ(row_shift(5, 5), kRowBits);
  EXPECT_EQ(row_shift(5, 5 - 48), 0);
  EXPECT_EQ(row_shift(5, 5 - 49), -1);
  EXPECT_EQ(row_shift(0x1p253, -0x1p253), -1);
  EXPECT_EQ(row_weight(kLargestSum, -1), uint128_t{0});
  EXPECT_EQ(row_weight(kLargestSum, 0), uint128_t{kLargestSum});
  EXPECT_EQ(row_weight(kLargestSum, kRowBits), uint128_t{kLargestSum} << kRowBits);
}

}  // namespace
}  // namespace fairdraw::suites
