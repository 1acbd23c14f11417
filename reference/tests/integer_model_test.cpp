// Tests statuses and their order, greedy rows, draws, the numbers of tiles, and values that have no
// row in the known answers. The properties that do not depend on the row's order are tested in
// tile_invariances_test.
#include "reference/integer_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "reference/sort_by_key.h"

namespace fairdraw::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");
constexpr float kOctaves = 0x1.715476p0F;  // at this temperature integer logits are octaves
constexpr RowWeight kOne = RowWeight{1} << (23 + 32 + 48);  // weight of a maximum of whole octaves

RowStatus status_of(std::vector<float> logits, RowParameters parameters = {},
                    std::vector<std::uint32_t> allowed = {}) {
  const IntegerRow row = integer_model(logits, allowed, parameters);
  EXPECT_EQ(row.mask.size(), logits.size());
  EXPECT_EQ(row.tiles.size(), (logits.size() + 255) / 256);
  if (row.status != RowStatus::ok) {
    EXPECT_TRUE(row.total == 0);
    EXPECT_EQ(row.support_size, 0);
    EXPECT_EQ(row.token_for(12345), -1);
    EXPECT_EQ(std::count(row.mask.begin(), row.mask.end(), 1), 0);
    for (const TileOfRow& tile : row.tiles) EXPECT_EQ(tile.key, key_of(-kInfinity));
  }
  return row.status;
}

RowStatus probs_status_of(std::vector<float> probs, RowParameters parameters = {}) {
  return integer_model_from_probs(probs, parameters).status;
}

// The sizes of these lists are on both sides of the limit for short lists; some keys have three
// digits, and some lists have so few keys that keys repeat.
TEST(SortByKey, IsTheOrderOfKeysAndThenOfPlaces) {
  std::mt19937_64 generator(11);
  for (const std::size_t size : {0U, 1U, 2U, 1023U, 1024U, 5000U}) {
    for (const std::uint64_t most : {3ULL, 0xffffffffULL}) {
      std::vector<std::uint64_t> entries;
      for (std::size_t place = 0; place < size; ++place) {
        entries.push_back((generator() & most) << 32 | place);
      }
      std::vector<std::uint64_t> expected = entries;
      std::sort(expected.begin(), expected.end());
      sort_by_key(entries);
      EXPECT_EQ(entries, expected) << size << " " << most;
    }
  }
}

TEST(IntegerModel, ValuesFailARowInOrder) {
  EXPECT_EQ(status_of({0, 1}), RowStatus::ok);
  EXPECT_EQ(status_of({kInfinity, 0, kNan}), RowStatus::nan_input);
  EXPECT_EQ(status_of({kInfinity, 0}), RowStatus::infinite_input);
  EXPECT_EQ(status_of({-kInfinity, -kInfinity}), RowStatus::no_allowed_token);
  EXPECT_EQ(status_of({}), RowStatus::no_allowed_token);
  // A bad value at a banned id fails the row too, before the allowed ids are considered.
  EXPECT_EQ(status_of({kNan, 0}, {}, {2}), RowStatus::nan_input);
  EXPECT_EQ(status_of({kInfinity, 0}, {}, {2}), RowStatus::infinite_input);
  EXPECT_EQ(status_of({kNan, 0}, {}, {0}), RowStatus::nan_input);
  EXPECT_EQ(status_of({0, 0}, {}, {0}), RowStatus::no_allowed_token);
  // Sets bits beyond the end of the row.
  EXPECT_EQ(status_of({0, 0}, {}, {~3U}), RowStatus::no_allowed_token);
}

TEST(IntegerModel, ProbabilitiesFailARowInOrder) {
  EXPECT_EQ(probs_status_of({0.5F, -0.0F}), RowStatus::ok);
  EXPECT_EQ(probs_status_of({-1, kInfinity, kNan}), RowStatus::nan_input);
  EXPECT_EQ(probs_status_of({-1, kInfinity}), RowStatus::infinite_input);
  EXPECT_EQ(probs_status_of({-0x1p-149F, 1}), RowStatus::negative_probability);
  EXPECT_EQ(probs_status_of({-kInfinity, 1}), RowStatus::negative_probability);
  EXPECT_EQ(probs_status_of({0, -0.0F}), RowStatus::no_allowed_token);
  EXPECT_EQ(probs_status_of({}), RowStatus::no_allowed_token);
  // Rows of probabilities do not use the temperature.
  EXPECT_EQ(probs_status_of({1}, {.temperature = kNan}), RowStatus::ok);
}

TEST(IntegerModel, ParametersAreCheckedFirstAndInOrder) {
  const std::vector<float> bad = {kNan};
  EXPECT_EQ(status_of(bad, {.temperature = -1, .top_k = -2}), RowStatus::invalid_temperature);
  EXPECT_EQ(status_of(bad, {.top_k = -2, .top_p = 2}), RowStatus::invalid_top_k);
  EXPECT_EQ(status_of(bad, {.top_p = 2, .min_p = 2}), RowStatus::invalid_top_p);
  EXPECT_EQ(status_of(bad, {.min_p = 2}), RowStatus::invalid_min_p);
  EXPECT_EQ(status_of(bad), RowStatus::nan_input);
  // Parameters of greedy rows are checked like those of all other rows.
  EXPECT_EQ(status_of({0}, {.temperature = 0, .min_p = -1}), RowStatus::invalid_min_p);
}

TEST(IntegerModel, RangesOfParametersAreClosed) {
  for (const float good : {0.0F, -0.0F, 0x1p-126F, 1.0F, 0x1p64F}) {
    EXPECT_EQ(status_of({0, 1}, {.temperature = good}), RowStatus::ok) << good;
  }
  for (const float bad : {0x1.fffffcp-127F, -0x1p-126F, 0x1.000002p64F, kInfinity, kNan}) {
    EXPECT_EQ(status_of({0, 1}, {.temperature = bad}), RowStatus::invalid_temperature) << bad;
  }
  for (const float good : {0.0F, -0.0F, 0x1p-149F, 1.0F}) {
    EXPECT_EQ(status_of({0, 1}, {.top_p = good}), RowStatus::ok) << good;
    EXPECT_EQ(status_of({0, 1}, {.min_p = good}), RowStatus::ok) << good;
  }
  for (const float bad : {-0x1p-149F, 0x1.000002p0F, kInfinity, kNan}) {
    EXPECT_EQ(status_of({0, 1}, {.top_p = bad}), RowStatus::invalid_top_p) << bad;
    EXPECT_EQ(status_of({0, 1}, {.min_p = bad}), RowStatus::invalid_min_p) << bad;
  }
  const std::int32_t least = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(status_of({0}, {.top_k = -1}), RowStatus::ok);
  EXPECT_EQ(status_of({0}, {.top_k = std::numeric_limits<std::int32_t>::max()}), RowStatus::ok);
  EXPECT_EQ(status_of({0}, {.top_k = -2}), RowStatus::invalid_top_k);
  EXPECT_EQ(status_of({0}, {.top_k = least}), RowStatus::invalid_top_k);
}

TEST(MinPThreshold, IsTheNearestFloatToTheLogarithm) {
  // The test covers every 4096th float32 of (0, 1], 2^18 values. The tolerance is half an ulp of
  // the result, and one ulp of a long double for the error of log2l itself.
  constexpr long double kUlp = std::numeric_limits<long double>::epsilon();
  std::int64_t checked = 0, wrong = 0;
  for (std::uint32_t bits = 1; bits <= std::bit_cast<std::uint32_t>(1.0F); bits += 4096) {
    const auto min_p = std::bit_cast<float>(bits);
    const long double exact = std::log2(static_cast<long double>(min_p));
    const float threshold = min_p_threshold(min_p);
    const float magnitude = std::abs(threshold);
    const long double half_ulp = (static_cast<long double>(std::nextafter(magnitude, kInfinity)) -
                                  static_cast<long double>(magnitude)) /
                                 2;
    ++checked;
    if (!(std::abs(exact - static_cast<long double>(threshold)) <=
          half_ulp + std::abs(exact) * kUlp)) {
      ++wrong;
    }
  }
  EXPECT_GE(checked, (1 << 18) - (1 << 12));
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(min_p_threshold(1), 0);
}

TEST(IntegerModel, GreedyRowsKeepOneToken) {
  const std::vector<float> logits = {1, 3, -kInfinity, 3};
  for (const RowParameters parameters :
       {RowParameters{.temperature = -0.0F}, RowParameters{.top_k = 1}, RowParameters{.top_p = 0},
        RowParameters{.temperature = 0, .top_k = 3, .top_p = 0.5F, .min_p = 1}}) {
    const IntegerRow row = integer_model(logits, {}, parameters);
    EXPECT_EQ(row.greedy_token, 1);
    EXPECT_EQ(row.mask, (std::vector<std::uint8_t>{0, 1, 0, 0}));
    EXPECT_TRUE(row.total == row.weight[1]);
    EXPECT_EQ(row.token_for(0), 1);
    EXPECT_EQ(row.token_for(~std::uint64_t{0}), 1);
    EXPECT_EQ(row.probability(1), 1);
    EXPECT_EQ(row.probability(3), 0);
  }
  const IntegerRow banned = integer_model(logits, std::vector<std::uint32_t>{0b1001}, {.top_k = 1});
  EXPECT_EQ(banned.greedy_token, 3);
}

TEST(IntegerModel, DrawsTheFirstTokenWhosePrefixSumExceedsThePosition) {
  // The weights are 1/2, 1, (banned), 1/4 and 1/4; top_k 4 drops no token.
  const std::vector<float> logits = {-1, 0, 5, -2, -2};
  const IntegerRow row =
      integer_model(logits, std::vector<std::uint32_t>{0b11011}, {.temperature = kOctaves});
  const RowWeight half = kOne / 2;
  EXPECT_TRUE(row.total == 4 * half);
  EXPECT_TRUE(row.total_unfiltered == row.total);
  EXPECT_EQ(row.token_at(0), 0);
  EXPECT_EQ(row.token_at(half - 1), 0);
  EXPECT_EQ(row.token_at(half), 1);
  EXPECT_EQ(row.token_at(3 * half - 1), 1);
  EXPECT_EQ(row.token_at(3 * half), 3);
  EXPECT_EQ(row.token_at(3 * half + half / 2 - 1), 3);
  EXPECT_EQ(row.token_at(3 * half + half / 2), 4);
  EXPECT_EQ(row.token_at(4 * half - 1), 4);
  EXPECT_THROW(row.token_at(4 * half), std::out_of_range);
  // The total is a power of two, so the position is the random word followed by zero bits.
  const std::uint64_t quarter_of_words = std::uint64_t{1} << 62;
  EXPECT_EQ(row.token_for(quarter_of_words - 1), 0);
  EXPECT_EQ(row.token_for(quarter_of_words), 1);
  EXPECT_EQ(row.token_for(~std::uint64_t{0}), 4);
  EXPECT_EQ(row.first_word_at(half), quarter_of_words);
  EXPECT_EQ(row.first_word_at(half + 1), quarter_of_words + 1);
  // Neighbouring random words are 2^40 positions apart here, so no word reaches the last positions.
  EXPECT_EQ(row.first_word_at(4 * half - (RowWeight{1} << 40) + 1), std::nullopt);
  EXPECT_EQ(row.probability(1), 0.5F);
  EXPECT_EQ(row.probability(2), 0);
}

TEST(IntegerModel, FilteredTokensKeepTheirWeightButCannotBeDrawn) {
  const std::vector<float> logits = {-3, 0, -1};
  const IntegerRow row = integer_model(logits, {}, {.temperature = kOctaves, .top_k = 2});
  EXPECT_TRUE(row.weight[0] == kOne / 8);
  EXPECT_TRUE(row.total == kOne + kOne / 2);
  EXPECT_TRUE(row.total_unfiltered - row.total == kOne / 8);
  EXPECT_EQ(row.token_for(0), 1);
  EXPECT_EQ(row.probability(0), 0);
  EXPECT_EQ(row.probability(2), static_cast<float>(1.0 / 3.0));
}

// A filter drops the maximum of the second tile, but the tile is still weighed relative to it: a
// token 33 octaves below this maximum loses its last bit.
TEST(IntegerModel, FiltersDoNotChangeTheOctaveOfATile) {
  std::vector<float> logits(258, -kInfinity);
  logits[0] = 40;
  logits[256] = 20;
  logits[257] = 20 - 33.125F;
  const std::uint32_t significand = octave_significand(-0.125F);
  ASSERT_EQ(significand % 2, 1U);
  // The weight is 2^-33 / 2^20 of the row's largest weight, with the token's own significand minus
  // the lost bit.
  const RowWeight expected = static_cast<RowWeight>(significand - 1) << (32 - 33 + 48 - 20);
  for (const float top_p : {1.0F, 0.5F}) {
    const IntegerRow row = integer_model(logits, {}, {.temperature = kOctaves, .top_p = top_p});
    EXPECT_EQ(row.mask[256] != 0, top_p == 1);
    EXPECT_TRUE(row.weight[257] == expected);
    EXPECT_EQ(row.tiles[1].key, key_of(20.0F));
    EXPECT_EQ(row.tiles[1].octave, 20);
    EXPECT_TRUE(weight_in_row(row.tiles[1].sum, 20, 40) == row.weight[256] + row.weight[257]);
  }
}

// Weights for speculation do not depend on tiles: a token 16 octaves below the row's maximum has
// all bits of its significand, and one bit less for every further octave, in any tile.
TEST(IntegerModel, WeighsForSpeculationRelativeToTheRow) {
  std::vector<float> logits(257, -kInfinity);
  logits[0] = -39.5F;
  logits[1] = -17.125F;
  logits[255] = -16.125F;
  logits[256] = 0;
  const IntegerRow row = integer_model(logits, {}, {.temperature = kOctaves});
  const std::uint64_t significand = octave_significand(-0.125F);
  ASSERT_EQ(significand % 2, 1U);
  EXPECT_EQ(row.speculation_weight[256], std::uint64_t{1} << (23 + 16));
  EXPECT_EQ(row.speculation_weight[255], significand);
  EXPECT_EQ(row.speculation_weight[1], significand / 2);
  EXPECT_EQ(row.speculation_weight[0], 0U);  // 40.5 octaves below: 2^(23.5 + 16 - 40) < 1
  EXPECT_EQ(row.speculation_total(), (std::uint64_t{1} << 39) + significand + significand / 2);
  // Tokens are drawn in the order of ids: 1, 255, 256.
  EXPECT_EQ(row.speculation_token_for(0), 1);
  EXPECT_EQ(row.speculation_token_for(~std::uint64_t{0}), 256);
  // A filter that drops tokens does not change the unit of weights.
  const IntegerRow greedy = integer_model(logits, {}, {.temperature = kOctaves, .top_k = 1});
  EXPECT_EQ(greedy.speculation_total(), std::uint64_t{1} << 39);
  EXPECT_EQ(greedy.speculation_token_for(0), 256);
}

TEST(IntegerModel, TokensWithoutWeightSurviveAndAreNotDrawn) {
  // The row has a token 64 octaves below its tile's maximum, and a tile 49 octaves below the row's.
  std::vector<float> logits(257, -kInfinity);
  logits[0] = -64;
  logits[1] = 0;
  logits[256] = -49;
  const IntegerRow row = integer_model(logits, {}, {.temperature = kOctaves});
  EXPECT_EQ(row.support_size, 3);
  EXPECT_TRUE(row.total == kOne);
  EXPECT_EQ(row.token_for(0), 1);
  EXPECT_EQ(row.token_for(~std::uint64_t{0}), 1);
  EXPECT_EQ(row.tiles[1].sum, std::uint64_t{1} << (23 + 32));
}

TEST(IntegerModel, KeysAreInTheOrderOfValues) {
  const std::vector<float> values = {-kInfinity, -3e38F, -1, -0x1p-149F, 0, 0x1p-149F, 1, 3e38F};
  for (std::size_t i = 1; i < values.size(); ++i)
    EXPECT_LT(key_of(values[i - 1]), key_of(values[i]));
  EXPECT_EQ(key_of(-0.0F), 0);
  EXPECT_EQ(key_of(0.0F), 0);
}

TEST(IntegerModel, WeightsBecomeTheNearestDoubles) {
  EXPECT_EQ(to_nearest_double(0), 0);
  EXPECT_EQ(to_nearest_double(kOne), 0x1p103);
  // From 2^54 to 2^55, doubles are multiples of 4. A weight halfway between two doubles goes to the
  // even one, and anything above halfway is rounded up.
  const RowWeight even = RowWeight{1} << 54;
  EXPECT_EQ(to_nearest_double(even + 2), 0x1p54);
  EXPECT_EQ(to_nearest_double(even + 3), 0x1p54 + 4);
  EXPECT_EQ(to_nearest_double(even + 6), 0x1p54 + 8);
  EXPECT_EQ(to_nearest_double(even + 5), 0x1p54 + 4);
  // A single bit far below the last place decides how a weight near halfway is rounded.
  EXPECT_EQ(to_nearest_double((RowWeight{1} << 123) + (RowWeight{1} << 70)), 0x1p123);
  EXPECT_EQ(to_nearest_double((RowWeight{1} << 123) + (RowWeight{1} << 70) + 1), 0x1p123 + 0x1p71);
  EXPECT_EQ(to_nearest_double((RowWeight{1} << 124) - 1), 0x1p124);
}

TEST(IntegerModel, TopKMaskKeepsTiesForEveryK) {
  const std::vector<float> logits = {1, 2, -kInfinity, 2, 0};
  using Mask = std::vector<std::uint8_t>;
  EXPECT_EQ(top_k_mask(logits, 1), (Mask{0, 1, 0, 1, 0}));
  EXPECT_EQ(top_k_mask(logits, 2), (Mask{0, 1, 0, 1, 0}));
  EXPECT_EQ(top_k_mask(logits, 3), (Mask{1, 1, 0, 1, 0}));
  for (const std::int32_t off : {0, -1, 4, 5, 6}) {
    EXPECT_EQ(top_k_mask(logits, off), (Mask{1, 1, 0, 1, 1})) << off;
  }
  EXPECT_EQ(top_k_mask(logits, -2), Mask(5, 0));
  EXPECT_EQ(top_k_mask(std::vector<float>{0, kNan}, 1), Mask(2, 0));
  EXPECT_EQ(top_k_mask(std::vector<float>{0, kInfinity}, 1), Mask(2, 0));
  EXPECT_EQ(top_k_mask(std::vector<float>{-kInfinity}, 1), Mask(1, 0));
}

TEST(IntegerModel, RefusesWhatItsCallerGotWrong) {
  const std::vector<float> logits(33, 0.0F);
  const std::vector<std::uint32_t> one_word = {1};
  EXPECT_THROW(integer_model(logits, one_word, {}), std::invalid_argument);
  const std::vector<float> too_long(static_cast<std::size_t>(kMaxVocab) + 1, 0.0F);
  EXPECT_THROW(integer_model(too_long, {}, {}), std::invalid_argument);
}

TEST(Float16, HalfIsItsDefinition) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_half(static_cast<std::uint16_t>(bits));
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const auto fraction = static_cast<float>(bits & 1023);
    float expected = 0;
    if (exponent == 31) {
      expected = fraction == 0 ? kInfinity : kNan;
    } else if (exponent == 0) {
      expected = std::ldexp(fraction, -24);
    } else {
      expected = std::ldexp(1024 + fraction, exponent - 25);
    }
    if ((bits & 0x8000) != 0) expected = -expected;
    ASSERT_EQ(std::isnan(value), std::isnan(expected)) << bits;
    if (std::isnan(expected)) continue;
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
  }
}

TEST(Float16, Bfloat16IsItsDefinition) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_bfloat16(static_cast<std::uint16_t>(bits));
    const int exponent = static_cast<int>((bits >> 7) & 255);
    const auto fraction = static_cast<float>(bits & 127);
    float expected = 0;
    if (exponent == 255) {
      expected = fraction == 0 ? kInfinity : kNan;
    } else if (exponent == 0) {
      expected = std::ldexp(fraction, -133);
    } else {
      expected = std::ldexp(128 + fraction, exponent - 134);
    }
    if ((bits & 0x8000) != 0) expected = -expected;
    ASSERT_EQ(std::isnan(value), std::isnan(expected)) << bits;
    if (std::isnan(expected)) continue;
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
  }
}

}  // namespace
}  // namespace fairdraw::reference
