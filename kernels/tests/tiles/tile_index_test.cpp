// tile_index is tested as a call: rows, dtypes, strides, statuses, memory that must not change, and
// the merging of indexes. tile_passes_test shows that the index of a row is correct on every
// instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <vector>

#include "common/float_order.h"
#include "harness/inputs/owned_call.h"
#include "tests/sample/random_rows.h"
#include "tests/tiles/tile_rows.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kNoOctave = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kRows = 9;
constexpr std::int64_t kVocab = 1003;  // 3 tiles, and a part of a fourth one
constexpr std::int64_t kTiles = 4;

/// Keys, sums and statuses of a call, which are filled beforehand with values that no call writes.
struct Index {
  std::int64_t rows, stride;
  std::vector<std::int32_t> keys;
  std::vector<std::uint64_t> sums;
  std::vector<RowStatus> statuses;
  bool operator==(const Index&) const = default;

  explicit Index(std::int64_t rows_, std::int64_t stride_)
      : rows(rows_),
        stride(stride_),
        keys(static_cast<std::size_t>(rows * stride), 77),
        sums(static_cast<std::size_t>(rows * stride), 77),
        statuses(static_cast<std::size_t>(rows), RowStatus::invalid_beam) {}

  TileIndexResult view() {
    return {{keys.data(), rows, stride}, {sums.data(), rows, stride}, {statuses.data(), rows}};
  }
  TileIndexPart part(std::int64_t row, std::int64_t tiles) const {
    return {{keys.data() + row * stride, tiles}, {sums.data() + row * stride, tiles}};
  }
};

Index index_of(const TileIndexRequest& request, const Execution& execution = {}) {
  Index index(request.rows.rows, tiles_of(request.rows.vocab));
  const Error error = tile_index(request, index.view(), execution);
  EXPECT_FALSE(error) << error.message;
  return index;
}

TileIndexRequest request_of(const RandomTileRow& row) {
  TileIndexRequest request;
  request.rows = {row.data(), row.dtype, 1, row.vocab(), row.vocab()};
  request.input = row.input;
  request.temperature = row.temperature;
  if (!row.allowed.empty()) {
    request.allowed = {row.allowed.data(), 1, static_cast<std::int64_t>(row.allowed.size())};
  }
  return request;
}

/// Rows with one temperature each, and no other parameters.
struct Rows {
  harness::OwnedCall call;
  harness::HostArrays arrays;
  std::vector<float> temperatures;

  Rows(DType dtype, std::int64_t stride, std::size_t shift) {
    call.allocate(dtype, kRows, kVocab, stride, shift);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const RandomRow row = random_row_of(7000000 + static_cast<std::uint64_t>(i), kVocab);
      call.set_row(i, row.logits.data());
      temperatures.push_back(row.parameters.temperature);
    }
  }
  TileIndexRequest request() {
    TileIndexRequest request;
    request.rows = request_in(call, arrays).logits;
    request.temperature = {temperatures.data(), kRows};
    return request;
  }
};

TEST(TileIndex, RowsEqualTheDefinitionOnEveryTarget) {
  for (std::uint64_t number = 0; number < 300; ++number) {
    const RandomTileRow row = random_tile_row(9000000 + number, 1 + static_cast<int>(number) * 5);
    const ExpectedIndex expected = expected_index(row);
    for (const CpuTarget target : available_targets()) {
      const Index got = index_of(request_of(row), {target, 1});
      EXPECT_EQ(got.statuses[0], expected.status) << describe(row) << to_string(target);
      EXPECT_EQ(got.keys, expected.keys) << describe(row) << to_string(target);
      EXPECT_EQ(got.sums, expected.sums) << describe(row) << to_string(target);
    }
  }
}

TEST(TileIndex, StrideAlignmentAndThreadsChangeNothingInAnyDtype) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const Index expected = index_of(Rows(dtype, kVocab, 0).request());
    EXPECT_GT(std::count(expected.statuses.begin(), expected.statuses.end(), RowStatus::ok), 4);
    for (const std::size_t shift : {1U, 2U, 4U, 33U}) {
      EXPECT_EQ(index_of(Rows(dtype, kVocab, shift).request()), expected) << shift;
    }
    EXPECT_EQ(index_of(Rows(dtype, kVocab + 21, 0).request()), expected);
    for (const int threads : {1, 2, 8}) {
      EXPECT_EQ(index_of(Rows(dtype, kVocab, 0).request(), {CpuTarget::best, threads}), expected);
    }
  }
}

TEST(TileIndex, WiderStridesOfResultsLeaveTheRestUntouched) {
  Rows rows(DType::float32, kVocab, 0);
  const Index expected = index_of(rows.request());
  Index wide(kRows, kTiles + 3);
  ASSERT_FALSE(tile_index(rows.request(), wide.view()));
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t t = 0; t < wide.stride; ++t) {
      const auto at = static_cast<std::size_t>(row * wide.stride + t);
      const auto same = static_cast<std::size_t>(row * kTiles + t);
      EXPECT_EQ(wide.keys[at], t < kTiles ? expected.keys[same] : 77);
      EXPECT_EQ(wide.sums[at], t < kTiles ? expected.sums[same] : std::uint64_t{77});
    }
  }
}

TEST(TileIndex, FailedRowsAreEmptyAndInactiveOnesUntouched) {
  std::vector<float> logits(1800, 1.0F);  // 6 rows
  logits[300] = kNan;
  logits[899] = kInfinity;
  std::fill_n(logits.begin() + 900, 300, -kInfinity);
  const std::vector<float> temperatures = {1.0F, 1.0F, 1.0F, 1.0F, -1.0F, kNan};
  const std::vector<std::uint8_t> active = {0, 1, 1, 1, 1, 1};
  TileIndexRequest request;
  request.rows = {logits.data(), DType::float32, 6, 300, 300};
  request.temperature = {temperatures.data(), 6};
  request.active = {active.data(), 6};
  const Index got = index_of(request);
  EXPECT_EQ(got.statuses, (std::vector<RowStatus>{
                              RowStatus::inactive, RowStatus::nan_input, RowStatus::infinite_input,
                              RowStatus::no_allowed_token, RowStatus::invalid_temperature,
                              RowStatus::invalid_temperature}));
  for (std::size_t i = 0; i < got.keys.size(); ++i) {
    EXPECT_EQ(got.keys[i], i < 2 ? 77 : kEmptyTileKey);
    EXPECT_EQ(got.sums[i], std::uint64_t{i < 2 ? 77U : 0U});
  }
}

TEST(TileIndex, GreedyRowsAreWeighedAtTemperatureOne) {
  RandomTileRow row = tile_row_of(random_row_of(11, 700).logits, 1.0F);
  const Index expected = index_of(request_of(row));
  ASSERT_EQ(expected.statuses[0], RowStatus::ok);
  row.temperature = 0.0F;
  EXPECT_EQ(index_of(request_of(row)), expected);
  EXPECT_EQ(tile_octave(expected.keys[0], TileInput::logits, 0.0F),
            tile_octave(expected.keys[0], TileInput::logits, 1.0F));
}

TEST(TileIndex, OfProbabilitiesTheTemperatureIsNotRead) {
  RandomTileRow row = tile_row_of({0.5F, 0.25F, 0.0F, 0.125F}, 1.0F);
  row.input = TileInput::probs;
  TileIndexRequest request = request_of(row);
  const Index expected = index_of(request);
  request.temperature = kNan;
  EXPECT_EQ(index_of(request), expected);
  EXPECT_EQ(expected.statuses[0], RowStatus::ok);
  // m = 2^23 and s = 0, 1 and 2: 2^55 (1 + 1/2 + 1/4).
  EXPECT_EQ(expected.sums[0], std::uint64_t{7} << 53);
  EXPECT_EQ(expected.keys[0], order_key(0.5F));
  EXPECT_EQ(tile_octave(expected.keys[0], TileInput::probs), -1);
}

TEST(TileIndex, NoRowsAreTaken) {
  TileIndexRequest request;
  request.rows = {nullptr, DType::float32, 0, 40, 40};
  const Error error = tile_index(request, {{nullptr, 0, 1}, {nullptr, 0, 1}, {}});
  EXPECT_FALSE(error) << error.message;
}

TEST(TileIndex, KeysAreInTheOrderOfTheLogits) {
  EXPECT_EQ(kEmptyTileKey, order_key(-kInfinity));
  const std::vector<float> ascending = {
      -std::numeric_limits<float>::max(), -1.0F, -0x1p-149F, 0.0F, 0x1p-149F, 1.0F,
      std::numeric_limits<float>::max()};
  std::int32_t previous = kEmptyTileKey;
  for (const float value : ascending) {
    const std::int32_t key = index_of(request_of(tile_row_of({value, -kInfinity}, 1.0F))).keys[0];
    EXPECT_GT(key, previous);
    previous = key;
  }
  EXPECT_EQ(index_of(request_of(tile_row_of({-0.0F}, 1.0F))).keys[0], 0);
}

// --- Merging -------------------------------------------------------------------------------------

using Wide = unsigned __int128;

Wide wide(const TileTotal& total) { return (Wide{total.high} << 64) | total.low; }

TileIndexTotal total_of(const std::vector<TileIndexPart>& parts, const RandomTileRow& row) {
  return total_of_tiles({parts.data(), static_cast<std::int64_t>(parts.size())}, row.input,
                        row.temperature);
}

TEST(TileIndexMerging, ShardsThatBeginAtTilesGiveTheTotalOfTheRow) {
  int compared = 0;
  for (std::uint64_t number = 0; number < 200; ++number) {
    RandomTileRow row = random_tile_row(9100000 + number, 1500);
    row.allowed.clear();
    store(row, 0);
    const Index whole = index_of(request_of(row));
    if (whole.statuses[0] != RowStatus::ok) continue;
    ++compared;
    const TileIndexTotal expected = total_of({whole.part(0, 6)}, row);
    // The shards have ids 0 to 511, 512 to 1279, and the rest, which comes first in the list.
    std::vector<Index> shards;
    for (const auto& [begin, end] : {std::pair{1280, 1500}, {0, 512}, {512, 1280}}) {
      TileIndexRequest request = request_of(row);
      const std::int64_t size = row.dtype == DType::float32 ? 4 : 2;
      request.rows.data = static_cast<const std::uint8_t*>(row.data()) + begin * size;
      request.rows.vocab = end - begin;
      shards.push_back(index_of(request));
    }
    const TileIndexTotal got =
        total_of({shards[0].part(0, 1), shards[1].part(0, 2), shards[2].part(0, 3)}, row);
    EXPECT_EQ(got.octave, expected.octave) << describe(row);
    EXPECT_EQ(wide(got.total), wide(expected.total)) << describe(row);
    // Adding up tile by tile must give the same sum.
    Wide sum = 0;
    for (std::size_t t = 0; t < whole.keys.size(); ++t) {
      const double octave = tile_octave(whole.keys[t], row.input, row.temperature);
      sum += wide(tile_weight_in_row(whole.sums[t], octave, expected.octave));
    }
    EXPECT_EQ(sum, wide(expected.total)) << describe(row);
  }
  EXPECT_GT(compared, 100);
}

TEST(TileIndexMerging, TheTotalIsTheSumOfExponentialsWithinTheBound) {
  int compared = 0;
  for (std::uint64_t number = 0; number < 40; ++number) {
    const RandomTileRow row = random_tile_row(9200000 + number, 3000);
    if (row.input == TileInput::probs) continue;
    const Index index = index_of(request_of(row));
    if (index.statuses[0] != RowStatus::ok) continue;
    const TileIndexTotal total = total_of({index.part(0, tiles_of(3000))}, row);
    // The sum is taken in octaves relative to E, so that nothing overflows: the sum of 2^(y - E) is
    // Z 2^-103.
    long double sum = 0;
    long double bound = 0;
    long double highest = -std::numeric_limits<long double>::infinity();
    const long double scale = 1 / (std::log(2.0L) * static_cast<long double>(row.temperature));
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      if (row.is_allowed(i)) {
        highest = std::max(highest, static_cast<long double>(row.values[i]) * scale);
      }
    }
    // For larger logits, the rounding of c changes weights by more than 5 %, so that the sum says
    // little.
    if (std::fabs(highest) > 0x1p20L) continue;
    ++compared;
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      if (!row.is_allowed(i) || std::isinf(row.values[i])) continue;
      const long double y = static_cast<long double>(row.values[i]) * scale;
      const long double weight = std::exp2(y - static_cast<long double>(total.octave));
      // The error has two parts: the factor from the rounding of c, and the error of the weight
      // itself. The product of the two errors is at most a twentieth of 2^-22; the bound has an
      // extra sixteenth of 2^-22 for it.
      const long double error = 0x1.1p-22L + std::expm1(0x1p-24L * std::log(2.0L) * std::fabs(y)) +
                                std::exp2(std::min(highest - y - 48, 0.0L));
      sum += weight;
      bound += weight * error;
    }
    const long double got = std::ldexp(static_cast<long double>(wide(total.total)), -103);
    EXPECT_LE(std::fabs(got - sum), bound) << describe(row);
  }
  EXPECT_GT(compared, 10);
}

TEST(TileIndexMerging, TilesBeyondTheRowsOctavesCountNothing) {
  EXPECT_EQ(wide(tile_weight_in_row(3, 5.0, 5.0)), Wide{3} << 48);
  EXPECT_EQ(wide(tile_weight_in_row(3, -43.0, 5.0)), Wide{3});
  EXPECT_EQ(wide(tile_weight_in_row(3, -44.0, 5.0)), Wide{0});
  EXPECT_EQ(wide(tile_weight_in_row(~std::uint64_t{0}, 0.0, 0.0)), Wide{~std::uint64_t{0}} << 48);
  EXPECT_EQ(wide(tile_weight_in_row(0, kNoOctave, 5.0)), Wide{0});
  EXPECT_EQ(wide(tile_weight_in_row(0, kNoOctave, kNoOctave)), Wide{0});
  EXPECT_EQ(tile_octave(kEmptyTileKey, TileInput::logits, 1.0F), kNoOctave);
  EXPECT_EQ(tile_octave(kEmptyTileKey, TileInput::probs), kNoOctave);
}

TEST(TileIndexMerging, NoPartsHaveNoOctave) {
  const TileIndexTotal none = total_of_tiles({}, TileInput::logits);
  EXPECT_EQ(none.octave, kNoOctave);
  EXPECT_EQ(wide(none.total), Wide{0});
}

// --- The caller's floating-point environment -----------------------------------------------------

struct Outcomes {
  std::vector<Index> indexes;
  std::vector<double> octaves;
  bool operator==(const Outcomes&) const = default;
};

Outcomes outcomes(const std::vector<RandomTileRow>& rows, CpuTarget target) {
  Outcomes all;
  for (const RandomTileRow& row : rows) {
    all.indexes.push_back(index_of(request_of(row), {target, 1}));
    const Index& index = all.indexes.back();
    const TileIndexPart part = index.part(0, index.stride);
    all.octaves.push_back(total_of_tiles({&part, 1}, row.input, row.temperature).octave);
    all.octaves.push_back(tile_octave(index.keys[0], row.input, row.temperature));
  }
  return all;
}

TEST(TileIndex, RoundingOfTheCallerChangesNothing) {
  std::vector<RandomTileRow> rows;
  for (std::uint64_t number = 0; number < 200; ++number) {
    rows.push_back(random_tile_row(9300000 + number, 600));
  }
  for (const CpuTarget target : available_targets()) {
    const Outcomes expected = outcomes(rows, target);
    for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
      std::fesetround(mode);
      const Outcomes got = outcomes(rows, target);
      const int after = std::fegetround();
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(got, expected) << to_string(target) << " in rounding mode " << mode;
      EXPECT_EQ(after, mode);
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
