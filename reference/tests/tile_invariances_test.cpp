// Tests that results do not change under a permutation of a row's tokens, under a shift of all
// logits, and if tiles come in another order or from other rows. Within 32 octaves of its tile's
// maximum a weight loses no bit, so it does not depend on the tile: octaves are monotone in the
// logit, and 32 octaves is an even integer, so that ties stay ties. So s <= 32.
//
// For each invariance the test also has a row just outside of its condition, for which the result
// does change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "reference/integer_model.h"
#include "reference/tests/random_rows.h"

namespace fairdraw::reference {
namespace {

constexpr float kOctaves = 0x1.715476p0F;  // at this temperature logits are octaves
constexpr double kNone = -std::numeric_limits<double>::infinity();

/// Returns `count` logits that span exactly `span` octaves; both ends of the span occur.
std::vector<float> within(RandomRows& random, std::size_t count, float span, float highest) {
  std::vector<float> logits(count);
  highest = std::floor(highest * 0x1p16F) * 0x1p-16F;
  // The logits are multiples of 2^-16, so that the difference of the ends is exact.
  for (float& x : logits) x = highest - std::floor(random.unit() * span * 0x1p16F) * 0x1p-16F;
  logits[random.below(count)] = highest;
  logits[random.below(count)] = highest - span;
  return logits;
}

/// True if the permuted row has the weights, total and mask of the original row.
bool is_permuted(const IntegerRow& row, const IntegerRow& other,
                 const std::vector<std::size_t>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (other.weight[i] != row.weight[order[i]] || other.mask[i] != row.mask[order[i]])
      return false;
  }
  return other.total == row.total && other.total_unfiltered == row.total_unfiltered;
}

std::vector<float> permuted(const std::vector<float>& values,
                            const std::vector<std::size_t>& order) {
  std::vector<float> result;
  for (const std::size_t i : order) result.push_back(values[i]);
  return result;
}

std::vector<std::size_t> random_order(RandomRows& random, std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

TEST(TileInvariances, EqualLogitsWeighTheSameWithin32OctavesOfTheirTiles) {
  RandomRows random(1);
  for (int i = 0; i < 2000; ++i) {
    // The row has its maximum, and four tiles whose maxima are anywhere below it. The tested token
    // is up to 32 octaves below the maximum of each tile.
    const float highest = 100 * random.unit();
    const float logit = highest - 32 * random.unit();
    std::vector<float> logits(4 * kIdsOfATile, -1000);
    logits[0] = highest;
    for (std::size_t tile = 0; tile < 4; ++tile) {
      logits[tile * kIdsOfATile + 3] = logit;
      logits[tile * kIdsOfATile + 7] = std::min(highest, logit + 32 * random.unit());
    }
    const IntegerRow row = integer_model(logits, {}, {.temperature = kOctaves});
    for (std::size_t tile = 1; tile < 4; ++tile) {
      ASSERT_TRUE(row.weight[3] == row.weight[tile * kIdsOfATile + 3]) << highest << " " << logit;
    }
    ASSERT_TRUE(row.weight[3] > 0);
  }
}

TEST(TileInvariances, EqualLogitsMayWeighLess33OctavesBelowATile) {
  std::vector<float> logits(257, -1000);
  logits[0] = 0;
  logits[1] = logits[256] = -33.125F;
  const std::uint32_t significand = octave_significand(-0.125F);
  ASSERT_EQ(significand % 2, 1U);
  const IntegerRow row = integer_model(logits, {}, {.temperature = kOctaves});
  EXPECT_TRUE(row.weight[256] == static_cast<RowWeight>(significand) << (32 - 33 + 48));
  EXPECT_TRUE(row.weight[1] == static_cast<RowWeight>(significand - 1) << (32 - 33 + 48));
}

TEST(TileInvariances, PermutationsOfRowsWithin32OctavesAreExact) {
  RandomRows random(2);
  for (int i = 0; i < 300; ++i) {
    const std::vector<float> logits = within(random, 700, 32, 60 * random.unit() - 30);
    const std::vector<std::size_t> order = random_order(random, logits.size());
    RowParameters parameters = random.parameters(logits.size());
    if (parameters.top_k == 1 || parameters.top_p == 0)
      continue;  // greedy rows keep the lowest
                 // id, which a permutation
                 // changes
    parameters.temperature = kOctaves;
    const IntegerRow row = integer_model(logits, {}, parameters);
    const IntegerRow other = integer_model(permuted(logits, order), {}, parameters);
    ASSERT_TRUE(is_permuted(row, other, order)) << i;
  }
}

TEST(TileInvariances, PermutationsOfProbabilitiesWithin32OctavesAreExact) {
  RandomRows random(3);
  for (int i = 0; i < 300; ++i) {
    std::vector<float> probs(700);
    const int lowest = -static_cast<int>(random.below(118)) - 31;  // also subnormal
    for (float& p : probs)
      p = std::ldexp(1 + random.unit(), lowest + static_cast<int>(random.below(32)));
    probs[random.below(probs.size())] = std::ldexp(1.0F, lowest);
    probs[random.below(probs.size())] = std::ldexp(1.0F, lowest + 32);
    const std::vector<std::size_t> order = random_order(random, probs.size());
    RowParameters parameters = random.parameters(probs.size());
    if (parameters.top_k == 1 || parameters.top_p == 0) continue;
    const IntegerRow row = integer_model_from_probs(probs, parameters);
    const IntegerRow other = integer_model_from_probs(permuted(probs, order), parameters);
    ASSERT_TRUE(is_permuted(row, other, order)) << i;
  }
}

TEST(TileInvariances, PermutationsOfWiderRowsAreNot) {
  RandomRows random(4);
  int changed = 0;
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> logits = within(random, 700, 34, 0);
    const std::vector<std::size_t> order = random_order(random, logits.size());
    const RowParameters parameters{.temperature = kOctaves};
    const IntegerRow row = integer_model(logits, {}, parameters);
    if (!is_permuted(row, integer_model(permuted(logits, order), {}, parameters), order)) ++changed;
  }
  EXPECT_GT(changed, 0);
}

/// At these temperatures the scale c is 1, 1/8 and 16.
const std::pair<float, float> kPowersOfTwo[] = {
    {kOctaves, 1.0F}, {8 * kOctaves, 0.125F}, {kOctaves / 16, 16.0F}};

/// Returns logits that span `span` octaves and are multiples of 2^-14 octaves, so that shifts are
/// exact.
std::vector<float> shiftable(RandomRows& random, float span, float scale) {
  std::vector<float> logits(600);
  for (float& x : logits) x = std::floor(random.unit() * span * 0x1p14F) * 0x1p-14F / scale;
  return logits;
}

std::vector<float> shifted(const std::vector<float>& logits, float shift) {
  std::vector<float> result;
  for (const float x : logits) {
    result.push_back(x + shift);
    EXPECT_EQ(static_cast<double>(result.back()),
              static_cast<double>(x) + static_cast<double>(shift));
  }
  return result;
}

TEST(TileInvariances, ShiftsByAnEvenNumberOfOctavesAreExact) {
  RandomRows random(5);
  for (const auto& [temperature, scale] : kPowersOfTwo) {
    ASSERT_EQ(octaves_per_logit(temperature), scale);
    for (int i = 0; i < 60; ++i) {
      const std::vector<float> logits = shiftable(random, 100, scale);
      const float shift = (2 * static_cast<float>(random.below(200)) - 200) / scale;
      RowParameters parameters = random.parameters(logits.size());
      parameters.temperature = temperature;
      const IntegerRow row = integer_model(logits, {}, parameters);
      const IntegerRow other = integer_model(shifted(logits, shift), {}, parameters);
      ASSERT_TRUE(row.weight == other.weight) << shift;
      ASSERT_TRUE(row.total == other.total) << shift;
      ASSERT_EQ(row.mask, other.mask) << shift;
      for (std::size_t t = 0; t < row.tiles.size(); ++t) {
        ASSERT_EQ(row.tiles[t].sum, other.tiles[t].sum) << shift;
      }
    }
  }
}

// If the maximum is halfway between two octaves, an odd shift moves its own octave by one more or
// less. Such a shift halves or doubles all weights of the row, and changes nothing else.
TEST(TileInvariances, ShiftsByAnOddNumberOfOctavesKeepDrawsOfRowsWithin31Octaves) {
  RandomRows random(6);
  int doubled = 0;
  for (int i = 0; i < 200; ++i) {
    const bool tie = i % 2 == 0;
    std::vector<float> logits = shiftable(random, 31, 1);
    if (tie) logits[random.below(logits.size())] = 31.5F;
    for (float& x : logits) x = tie ? std::max(x, 0.5F) : x;
    const auto shift = static_cast<float>(2 * random.below(100) + 1);
    RowParameters parameters = random.parameters(logits.size());
    parameters.temperature = kOctaves;
    const IntegerRow row = integer_model(logits, {}, parameters);
    const IntegerRow other = integer_model(shifted(logits, shift), {}, parameters);
    ASSERT_EQ(row.mask, other.mask) << shift;
    doubled += row.total != other.total ? 1 : 0;
    ASSERT_TRUE(row.total == other.total ||
                (tie && (row.total == 2 * other.total || 2 * row.total == other.total)));
    for (int draw = 0; draw < 20; ++draw) {
      const std::uint64_t word = random.word();
      ASSERT_EQ(row.token_for(word), other.token_for(word)) << shift;
    }
    for (std::int32_t token = 0; token < 600; ++token) {
      ASSERT_EQ(row.probability(token), other.probability(token)) << shift;
    }
  }
  EXPECT_GT(doubled, 0);
}

TEST(TileInvariances, ShiftsByPartsOfAnOctaveAreNotExact) {
  RandomRows random(7);
  const std::vector<float> logits = shiftable(random, 30, 1);
  const RowParameters parameters{.temperature = kOctaves};
  const IntegerRow row = integer_model(logits, {}, parameters);
  const IntegerRow other = integer_model(shifted(logits, 0.25F), {}, parameters);
  bool is_the_same = true;
  for (std::int32_t token = 0; token < 600; ++token) {
    is_the_same = is_the_same && row.probability(token) == other.probability(token);
  }
  EXPECT_FALSE(is_the_same);
}

/// Returns the sum of weights of the tiles, in any order.
RowWeight total_of(const std::vector<TileOfRow>& tiles) {
  double highest = kNone;
  for (const TileOfRow& tile : tiles) highest = std::max(highest, tile.octave);
  RowWeight total = 0;
  for (const TileOfRow& tile : tiles) {
    if (tile.octave != kNone) total += weight_in_row(tile.sum, tile.octave, highest);
  }
  return total;
}

// Shards that begin at multiples of 256 tokens have the same tiles as the row. The tile indexes of
// the shards, joined in any order, give the row's total.
TEST(TileInvariances, TilesOfShardsMergeInAnyOrder) {
  RandomRows random(8);
  for (int i = 0; i < 20 * kRowKinds; ++i) {
    const auto kind = static_cast<RowKind>(i % kRowKinds);
    const std::vector<float> logits = random.logits(kind, 2000);
    const IntegerRow row = integer_model(logits, {}, {.temperature = 0.7F});
    std::vector<TileOfRow> joined;
    for (std::size_t first = 0; first < logits.size();) {
      const std::size_t ids = std::min((1 + random.below(4)) * kIdsOfATile, logits.size() - first);
      const IntegerRow shard =
          integer_model(std::span(logits).subspan(first, ids), {}, {.temperature = 0.7F});
      joined.insert(joined.end(), shard.tiles.begin(), shard.tiles.end());
      first += ids;
    }
    ASSERT_EQ(joined.size(), row.tiles.size());
    for (std::size_t t = 0; t < joined.size(); ++t) {
      ASSERT_EQ(joined[t].key, row.tiles[t].key);
      ASSERT_EQ(joined[t].sum, row.tiles[t].sum);
    }
    const std::vector<std::size_t> order = random_order(random, joined.size());
    std::vector<TileOfRow> shuffled;
    for (const std::size_t t : order) shuffled.push_back(joined[t]);
    ASSERT_TRUE(total_of(shuffled) == row.total_unfiltered) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace fairdraw::reference
