// Weights of speculation on the GPU must equal the definition, value by value, and the high word of
// weights by tiles. Totals must lie within the bounds that follow from the weights by tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "tests/cuda/serving/relative_weights_on_device.h"
#include "tests/cuda/tile_rows_on_device.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

Octaves octaves_of_value(const RandomTileRow& row, float value) {
  return row.input == TileInput::probs ? octaves_of_probability(value)
                                       : octaves_of(value, logit_scale(row.temperature));
}

/// Returns floor(m 2^(16 + n - E)) for the significand m, where `below` is E - n.
std::uint64_t relative_weight(std::uint32_t significand, double below) {
  constexpr int kBits = 16;
  constexpr double kNothingLeft = 24 + kBits;
  if (below >= kNothingLeft) return 0;
  return (static_cast<std::uint64_t>(significand) << kBits) >> static_cast<int>(below);
}

/// A row with a cut (the end of its survivors), and its expected weights.
struct CutRow {
  cuda::RowRecord record{};
  std::vector<std::uint64_t> weights;
  std::uint64_t total = 0;

  /// Keeps the values above that of token `last`, and the equal values up to that token; keeps all
  /// allowed values if `last` is negative. greedy: keeps only `last`.
  CutRow(const RandomTileRow& row, const ExpectedIndex& index, std::int64_t last, bool greedy)
      : weights(row.values.size(), 0) {
    const std::int32_t largest = *std::max_element(index.keys.begin(), index.keys.end());
    const bool is_probs = row.input == TileInput::probs;
    record.status = RowStatus::ok;
    record.greedy_token = greedy ? static_cast<std::int32_t>(last) : -1;
    record.max = from_order_key(largest);
    record.low = last >= 0  ? row.values[static_cast<std::size_t>(last)]
                 : is_probs ? 0x1p-149F
                            : -std::numeric_limits<float>::max();
    record.tie_end = static_cast<std::int32_t>(last >= 0 ? last + 1 : row.vocab());
    const double octave = octaves_of_value(row, record.max).whole;
    uint128_t by_tiles = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float x = row.values[i];
      if (!row.is_allowed(i) || !(is_probs ? x > 0 : x > -INFINITY)) continue;
      if (x < record.low) continue;
      if (x == record.low && static_cast<std::int32_t>(i) >= record.tie_end) continue;
      const Octaves octaves = octaves_of_value(row, x);
      weights[i] = relative_weight(octaves.significand, octave - octaves.whole);
      const float largest_of_tile = from_order_key(index.keys[i / kTileSize]);
      const double of_tile = octaves_of_value(row, largest_of_tile).whole;
      const uint128_t weight =
          row_weight(tile_weight(octaves, of_tile), row_shift(octave, of_tile));
      by_tiles += weight;
      EXPECT_EQ(weights[i], static_cast<std::uint64_t>(weight >> 64)) << describe(row);
      total += weights[i];
    }
    record.total_low = static_cast<std::uint64_t>(by_tiles);
    record.total_high = static_cast<std::uint64_t>(by_tiles >> 64);
    if (!greedy) return;
    std::fill(weights.begin(), weights.end(), 0);
    weights[static_cast<std::size_t>(last)] = 1;
    total = 1;
  }
};

/// The number of rows in a test, and the number of rows whose total is not determined by its
/// bounds.
struct Seen {
  int rows = 0, open = 0;
};

void expect_on_gpu(const RandomTileRow& row, const CutRow& cut, DeviceArrays& arrays, Seen& seen) {
  std::vector<int> clusters = {1};
  if (cuda::is_available(cuda::Path::cluster)) clusters = {1, 2, 8};
  for (const int blocks : clusters) {
    arrays.rewind();
    cuda::FilteredRows rows;
    rows.rows = rows_on_device(row, arrays);
    rows.from_probs = row.input == TileInput::probs;
    rows.temperature = row.temperature;
    rows.allowed = allowed_on_device(row, arrays);
    rows.records = arrays.in(std::vector<cuda::RowRecord>{cut.record});
    std::vector<std::uint64_t> weights(row.values.size(), ~std::uint64_t{0});
    std::vector<std::uint64_t> bounds(2, 0);
    std::vector<std::uint64_t> total(1, 0);
    require(relative_weights(rows, {arrays.out(weights), arrays.out(bounds), arrays.out(total)},
                             blocks),
            "relative_weights");
    arrays.fetch();
    ASSERT_EQ(weights, cut.weights) << describe(row) << ", low " << cut.record.low;
    ASSERT_EQ(total[0], cut.total) << describe(row) << ", " << blocks << " blocks";
    ASSERT_LE(bounds[0], cut.total) << describe(row);
    ASSERT_GE(bounds[1], cut.total) << describe(row);
    if (blocks == 1 && bounds[0] < bounds[1]) ++seen.open;
  }
  ++seen.rows;
}

TEST(CudaRelativeWeights, AreTheDefinitionsAndTheHighWordOfWeightsByTiles) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  Seen seen;
  const std::uint64_t numbers = is_reduced() ? 60 : 900;
  for (std::uint64_t number = 0; number < numbers; ++number) {
    const RandomTileRow row = random_tile_row(9700000 + number, tile_vocab(number));
    const ExpectedIndex index = expected_index(row);
    if (index.status != RowStatus::ok) continue;
    const bool greedy = number % 11 == 0;
    std::int64_t last = -1;
    if (number % 3 == 0 || greedy) {  // an allowed token
      last = static_cast<std::int64_t>(number * 7919) % row.vocab();
      const auto has_weight = [&row](std::int64_t token) {
        const float x = row.values[static_cast<std::size_t>(token)];
        return row.is_allowed(static_cast<std::size_t>(token)) &&
               (row.input == TileInput::probs ? x > 0 : x > -INFINITY);
      };
      while (!has_weight(last)) last = (last + 1) % row.vocab();
    }
    expect_on_gpu(row, CutRow(row, index, last, greedy), arrays, seen);
    if (HasFatalFailure()) return;
  }
  // Lower and upper bounds differ except in greedy rows (1 row of 11) and in rows of one token.
  EXPECT_GT(seen.rows, static_cast<int>(numbers / 2));
  EXPECT_GT(seen.open, seen.rows * 2 / 3);
}

// The row has the largest total, 2^20 weights of 24 bits each, and as a subnormal row the loosest
// bounds.
TEST(CudaRelativeWeights, OfTheLargestVocabularyAreTheDefinitions) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "rows of this size take too long under compute-sanitizer";
  DeviceArrays arrays;
  Seen seen;
  const float all_bits = std::nextafter(2.0F, 0.0F);
  const auto row_of = [](float first, float rest, TileInput input) {
    std::vector<float> values(static_cast<std::size_t>(kMaxVocab), rest);
    values[777] = first;
    RandomTileRow row = tile_row_of(std::move(values), 1.0F);
    row.input = input;
    return row;
  };
  for (const RandomTileRow& row :
       {row_of(all_bits, all_bits, TileInput::probs), row_of(0x1p-149F, 0.0F, TileInput::probs),
        row_of(0x1p-130F, 0x1p-149F, TileInput::probs), row_of(8.3F, 8.3F, TileInput::logits),
        row_of(30.0F, 3.0F, TileInput::logits)}) {
    expect_on_gpu(row, CutRow(row, expected_index(row), -1, false), arrays, seen);
  }
}

}  // namespace
}  // namespace fairdraw::suites
