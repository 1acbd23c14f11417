// The passes over tiles on every instruction set are compared with the definition, value by value.
#include "cpu/passes/tile_passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/tiles/tile_rows.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
/// A value in memory that a pass must not write.
constexpr std::uint64_t kUntouched = 0xcacacacacacacaca;

cpu::RowInMemory view_of(const RandomTileRow& row) {
  return {row.data(), row.dtype, row.vocab(), row.allowed.empty() ? nullptr : row.allowed.data()};
}

cpu::WeightRule rule_of(const RandomTileRow& row) {
  return {row.input == TileInput::probs, logit_scale(row.temperature)};
}

std::string compare_index(const RandomTileRow& row, const ExpectedIndex& expected,
                          const cpu::TilePasses& passes) {
  const std::size_t tiles = expected.keys.size();
  std::vector<std::int32_t> keys(tiles, 77);
  std::vector<std::uint64_t> sums(tiles, kUntouched);
  const RowStatus status = passes.index(view_of(row), rule_of(row), keys.data(), sums.data());
  if (status != expected.status) {
    return fmt::format("status {} instead of {}", to_string(status), to_string(expected.status));
  }
  if (status != RowStatus::ok && status != RowStatus::no_allowed_token) return {};
  for (std::size_t t = 0; t < tiles; ++t) {
    if (keys[t] != expected.keys[t]) {
      return fmt::format("tile {}: key {} instead of {}", t, keys[t], expected.keys[t]);
    }
    if (sums[t] != expected.sums[t]) {
      return fmt::format("tile {}: sum {:x} instead of {:x}", t, sums[t], expected.sums[t]);
    }
  }
  return {};
}

/// Compares the values of `read` as bits, so that a NaN does not equal other values.
std::string compare_values(const RandomTileRow& row, std::int64_t tile, const float* values) {
  const float banned = row.input == TileInput::probs ? 0.0F : -kInfinity;
  for (std::size_t i = 0; i < kTileSize; ++i) {
    const std::size_t id = static_cast<std::size_t>(tile) * kTileSize + i;
    const bool stays = id < row.values.size() && row.is_allowed(id);
    const float expected = stays ? row.values[id] : banned;
    if (std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(expected)) {
      return fmt::format("tile {}: value {} is {:a} instead of {:a}", tile, i, values[i], expected);
    }
  }
  return {};
}

/// Compares `sum` and `weigh` of the first n values, starting at `low`.
std::string compare_weights(const RandomTileRow& row, const cpu::TilePasses& passes,
                            const float* values, std::size_t n, float maximum, float low,
                            const std::vector<std::uint64_t>& expected) {
  std::vector<std::uint64_t> weights(n + cpu::kTileSlack, kUntouched);
  passes.weigh(values, n, rule_of(row), maximum, low, weights.data());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t weight = values[i] >= low ? expected[i] : 0;
    total += weight;
    if (weights[i] != weight) {
      return fmt::format("weight {} from {:a} is {:x} instead of {:x}", i, low, weights[i], weight);
    }
  }
  for (std::size_t i = n; i < weights.size(); ++i) {
    if (weights[i] != 0 && weights[i] != kUntouched) return "something follows the weights";
  }
  const std::uint64_t sum = passes.sum(values, n, rule_of(row), maximum, low);
  if (sum == total) return {};
  return fmt::format("sum of {} from {:a} is {:x} instead of {:x}", n, low, sum, total);
}

std::string compare_tile(const RandomTileRow& row, const ExpectedIndex& expected, std::int64_t tile,
                         const cpu::TilePasses& passes, harness::Dice& dice) {
  std::vector<float> buffer(kTileSize, kNan);
  const float* values = passes.read(view_of(row), rule_of(row), tile, buffer.data());
  std::string difference = compare_values(row, tile, values);
  const std::int32_t key = expected.keys[static_cast<std::size_t>(tile)];
  if (!difference.empty() || key == kEmptyTileKey) return difference;
  const float maximum = from_order_key(key);
  const std::vector<std::uint64_t> weights = expected_weights(row, tile);
  const float some = values[dice.below(kTileSize)];
  for (const float low : {-kInfinity, maximum, some, next_above(maximum)}) {
    const std::size_t n = dice.once_in(2) ? kTileSize : dice.below(kTileSize + 1);
    difference = compare_weights(row, passes, values, n, maximum, low, weights);
    if (!difference.empty()) return fmt::format("tile {}: {}", tile, difference);
  }
  return {};
}

/// Returns the first difference from the definition, or an empty string.
std::string compare(const RandomTileRow& row, const ExpectedIndex& expected,
                    const cpu::TilePasses& passes) {
  std::string difference = compare_index(row, expected, passes);
  if (!difference.empty() || expected.status != RowStatus::ok) return difference;
  harness::Dice dice(~row.number);
  const std::int64_t tiles = tiles_of(row.vocab());
  // The loop tests up to 16 tiles of a row, including the last tile.
  for (std::int64_t tile = tiles - 1; tile >= 0 && tile >= tiles - 16; --tile) {
    difference = compare_tile(row, expected, tile, passes, dice);
    if (!difference.empty()) return difference;
  }
  return {};
}

void expect_definition(const RandomTileRow& row) {
  const ExpectedIndex expected = expected_index(row);
  for (const CpuTarget target : available_targets()) {
    EXPECT_EQ(compare(row, expected, cpu::tile_passes_for(target)), "")
        << describe(row) << " on " << to_string(target);
  }
}

/// Compares rows `first` to `first + rows` of the generator.
void compare_many(std::uint64_t first, std::uint64_t rows, std::int64_t smallest,
                  std::int64_t largest) {
  std::atomic<std::uint64_t> ok_rows{0};
  std::atomic<int> reported{0};
  std::mutex mutex;
#pragma omp parallel for schedule(dynamic, 16)
  for (std::uint64_t i = 0; i < rows; ++i) {
    const std::int64_t vocab =
        smallest +
        static_cast<std::int64_t>(i % static_cast<std::uint64_t>(largest - smallest + 1));
    const RandomTileRow row = random_tile_row(first + i, vocab);
    const ExpectedIndex expected = expected_index(row);
    if (expected.status == RowStatus::ok) ++ok_rows;
    for (const CpuTarget target : available_targets()) {
      const std::string difference = compare(row, expected, cpu::tile_passes_for(target));
      if (!difference.empty() && reported++ < 20) {
        const std::lock_guard<std::mutex> lock(mutex);
        ADD_FAILURE() << describe(row) << " on " << to_string(target) << ": " << difference;
      }
    }
  }
  // Most rows must be valid, otherwise the comparison says little.
  EXPECT_GT(ok_rows.load(), rows / 2);
}

TEST(TilePasses, EveryLengthTo1300EqualsTheDefinition) { compare_many(0, budget(13000), 1, 1300); }

TEST(TilePasses, LongRowsEqualTheDefinition) {
  for (const std::int64_t vocab : {32000, 50257, 131072}) {
    compare_many(1000000 + static_cast<std::uint64_t>(vocab),
                 std::max<std::uint64_t>(4, budget(16)), vocab, vocab);
  }
  compare_many(2000000, 8, kMaxVocab, kMaxVocab);
}

TEST(TilePasses, EveryOctaveBelowTheMaximumShiftsAsDefined) {
  // The scale c is 1, so that a logit is its own number of octaves. The logits cover all counts
  // around 0, 32 and 64, and halves that tie.
  std::vector<float> logits;
  for (int step = 0; step < 2 * 256; ++step) logits.push_back(-0.5F * static_cast<float>(step));
  expect_definition(tile_row_of(logits, 0x1.715476p0F));
  for (float& logit : logits) logit += 1e6F;
  expect_definition(tile_row_of(logits, 0x1.715476p0F));
}

TEST(TilePasses, ValuesFarBelowTheMaximumWeighNothing) {
  for (const float maximum : {0.0F, 1.0F, -1.0F, 0x1p20F, -0x1p20F, 0x1p21F, -0x1p21F, 0x1p22F,
                              0x1p100F, kLargest, -0x1p100F}) {
    std::vector<float> logits(300, -kInfinity);
    logits[3] = maximum;
    logits[17] = -kLargest;
    logits[18] = -0x1p126F;
    for (std::size_t i = 20; i < 150; ++i) {
      logits[i] = std::min(maximum, -std::ldexp(1.0F, static_cast<int>(i) - 22));
    }
    for (const float temperature : {0x1p-126F, 1e-6F, 0x1.715476p0F, 1.0F, 0x1p64F}) {
      expect_definition(tile_row_of(logits, temperature));
    }
  }
}

TEST(TilePasses, FloatArithmeticEndsWhereTheDefinitionSays) {
  // The logits are the float32 values next to and at 2^21 octaves, with both signs.
  for (const float end : {0x1p21F, -0x1p21F}) {
    for (const float maximum : {next_above(end), end, previous_below(end)}) {
      std::vector<float> logits(256);
      for (std::size_t i = 0; i < logits.size(); ++i) {
        logits[i] = maximum - 0.25F * static_cast<float>(i);
      }
      expect_definition(tile_row_of(logits, 0x1.715476p0F));
    }
  }
}

TEST(TilePasses, SubnormalLogitsAndProbabilitiesCount) {
  std::vector<float> values(520, 0.0F);
  for (std::size_t i = 0; i < 300; ++i) values[i] = std::ldexp(static_cast<float>(i), -149);
  RandomTileRow row = tile_row_of(values, 0x1p-126F);
  expect_definition(row);
  EXPECT_NE(expected_weights(row, 1)[0], expected_weights(row, 1)[43]);
  row.input = TileInput::probs;
  expect_definition(row);
  EXPECT_EQ(expected_index(row).keys[2], kEmptyTileKey);  // only probabilities of 0
}

TEST(TilePasses, BadValuesAreSeenAtEveryPlaceAndAtBannedIds) {
  struct Bad {
    TileInput input;
    float value;
    RowStatus status;
  };
  const std::vector<Bad> all = {
      {TileInput::logits, kNan, RowStatus::nan_input},
      {TileInput::logits, -kNan, RowStatus::nan_input},
      {TileInput::logits, kInfinity, RowStatus::infinite_input},
      {TileInput::logits, -kInfinity, RowStatus::ok},
      {TileInput::probs, kNan, RowStatus::nan_input},
      {TileInput::probs, kInfinity, RowStatus::infinite_input},
      {TileInput::probs, -0x1p-149F, RowStatus::negative_probability},
      {TileInput::probs, -0.0F, RowStatus::ok},
  };
  for (const Bad& bad : all) {
    // Position 299 is beyond the last whole vector; the others are some positions of every vector
    // width.
    for (std::size_t place = 0; place < 300; place += place < 40 || place > 250 ? 1 : 7) {
      RandomTileRow row = tile_row_of(std::vector<float>(300, 0.25F), 1.0F);
      row.input = bad.input;
      row.values[place] = bad.value;
      for (const bool banned : {false, true}) {
        if (banned) {
          row.allowed.assign(10, 0xffffffffU);
          row.allowed[place / 32] &= ~(1U << (place % 32));
        }
        store(row, 0);
        ASSERT_EQ(expected_index(row).status, bad.status);
        expect_definition(row);
      }
    }
  }
}

TEST(TilePasses, TheFirstOfSeveralFaultsIsTold) {
  RandomTileRow row = tile_row_of(std::vector<float>(600, 0.5F), 1.0F);
  row.input = TileInput::probs;
  row.allowed.assign(19, 0);  // now no token is allowed
  expect_definition(row);
  for (const auto& [place, value] : {std::pair{590, -1.0F}, {5, kInfinity}, {300, kNan}}) {
    row.values[static_cast<std::size_t>(place)] = value;
    store(row, 0);
    expect_definition(row);
  }
}

TEST(TilePasses, NothingIsWrittenBeyondTheIndex) {
  const RandomTileRow row = tile_row_of(std::vector<float>(513, 1.0F), 1.0F);
  for (const CpuTarget target : available_targets()) {
    std::vector<std::int32_t> keys(5, 77);
    std::vector<std::uint64_t> sums(5, kUntouched);
    EXPECT_EQ(cpu::tile_passes_for(target).index(view_of(row), rule_of(row), &keys[1], &sums[1]),
              RowStatus::ok);
    EXPECT_EQ(keys[0], 77);
    EXPECT_EQ(keys[4], 77);
    EXPECT_EQ(sums[0], kUntouched);
    EXPECT_EQ(sums[4], kUntouched);
  }
}

}  // namespace
}  // namespace fairdraw::suites
