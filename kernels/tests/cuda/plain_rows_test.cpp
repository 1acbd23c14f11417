// Rows without top_k and top_p are drawn by tiles on the GPU. The drawn tokens must equal draws by
// the definition (common/tile_weights.h), value by value, on every spread of a row.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/float_order.h"
#include "common/min_p.h"
#include "common/philox.h"
#include "common/tile_weights.h"
#include "common/wide_integers.h"
#include "cuda/tiles/filter_rows.h"
#include "tests/cuda/graphs.h"
#include "tests/cuda/tile_rows_on_device.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Returns the octave of a tile with this key. Precondition: the row's status is ok.
double octave_of(const RandomTileRow& row, std::int32_t key) {
  return tile_octave(key, row.input, row.temperature);
}

/// The distribution of a row: the weight of each token in the row, and 0 for tokens that do not
/// survive.
struct RowWeights {
  std::vector<uint128_t> of_token;
  uint128_t total = 0;

  RowWeights(const RandomTileRow& row, const ExpectedIndex& index, float min_p)
      : of_token(row.values.size()) {
    const std::int32_t largest = *std::max_element(index.keys.begin(), index.keys.end());
    const double top = octave_of(row, largest);
    for (std::size_t tile = 0; tile < index.keys.size(); ++tile) {
      if (index.sums[tile] == 0) continue;
      const int shift = row_shift(top, octave_of(row, index.keys[tile]));
      const std::vector<std::uint64_t> weights =
          expected_weights(row, static_cast<std::int64_t>(tile));
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const std::size_t token = tile * kTileSize + i;
        if (weights[i] == 0 || !survives(row, row.values[token], largest, min_p)) continue;
        of_token[token] = row_weight(weights[i], shift);
        total += of_token[token];
      }
    }
  }

  /// Returns the first token whose inclusive prefix sum exceeds R.
  std::int32_t token_for(std::uint64_t word) const {
    const uint128_t target = multiply_high(word, total);
    uint128_t upto = 0;
    for (std::size_t token = 0; token < of_token.size(); ++token) {
      upto += of_token[token];
      if (upto > target) return static_cast<std::int32_t>(token);
    }
    return -1;
  }

 private:
  static bool survives(const RandomTileRow& row, float value, std::int32_t largest, float min_p) {
    const float max = from_order_key(largest);
    if (min_p == 0) return true;
    if (row.input == TileInput::probs) {  // both products below are exact in double
      return static_cast<double>(value) >= static_cast<double>(min_p) * static_cast<double>(max);
    }
    const float distance = value - max;
    return distance * logit_scale(row.temperature) >= min_p_octaves(min_p);
  }
};

/// Returns the lowest id among the tokens with the largest value.
std::int32_t greedy_token(const RandomTileRow& row, const ExpectedIndex& index) {
  const std::int32_t largest = *std::max_element(index.keys.begin(), index.keys.end());
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    if (row.is_allowed(i) && order_key(row.values[i]) == largest) {
      return static_cast<std::int32_t>(i);
    }
  }
  return -1;
}

cuda::RowsTask task_of(const RandomTileRow& row, DeviceArrays& arrays) {
  cuda::RowsTask task;
  task.rows = rows_on_device(row, arrays);
  task.from_probs = row.input == TileInput::probs;
  task.temperature = row.temperature;
  task.allowed = allowed_on_device(row, arrays);
  return task;
}

/// The expected token and status of a row for a random word.
struct Expected {
  RowStatus status;
  std::int32_t token = -1;

  Expected(const RandomTileRow& row, float min_p, std::uint64_t word) {
    const ExpectedIndex index = expected_index(row);
    status = index.status;
    if (status != RowStatus::ok) return;
    token = row.temperature == 0 ? greedy_token(row, index)
                                 : RowWeights(row, index, min_p).token_for(word);
  }
};

TEST(CudaPlainRows, TokensAreThoseOfTheDefinitionOnEverySpread) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr float kMinP[] = {0.0F, 0.05F, 1.0F, 0x1p-149F, 0.5F};
  DeviceArrays arrays;
  for (std::uint64_t number = 0; number < 300; ++number) {
    RandomTileRow row = random_tile_row(9200000 + number, tile_vocab(number));
    if (row.input == TileInput::logits && number % 7 == 0) row.temperature = 0.0F;
    const float min_p = number % 2 == 0 ? 0.0F : kMinP[number / 2 % std::size(kMinP)];
    const std::uint64_t word = random_word(number, 3, Purpose::draw, 0);
    const Expected expected(row, min_p, word);
    for (const cuda::TileSpread& spread : filter_spreads()) {
      arrays.rewind();
      cuda::RowsTask task = task_of(row, arrays);
      task.min_p = min_p;
      task.seed = number;
      task.offset = std::uint64_t{3};
      std::vector<std::int32_t> tokens(1, -77);
      std::vector<RowStatus> statuses(1, RowStatus::invalid_beam);
      task.tokens = arrays.out(tokens);
      task.statuses = arrays.out(statuses);
      require(cuda::filter_tiles(task, spread, nullptr), "filter_tiles");
      arrays.fetch();
      ASSERT_EQ(statuses[0], expected.status) << describe(row) << ", " << describe(spread);
      ASSERT_EQ(tokens[0], expected.token)
          << describe(row) << ", " << describe(spread) << ", min_p " << min_p;
    }
  }
}

TEST(CudaPlainRows, AReplayDoesNotDependOnTheRowsBefore) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kVocab = 30000;
  Stream stream;
  for (const cuda::TileSpread& spread : filter_spreads()) {
    std::vector<float> memory(2 * kVocab, 0.0F);
    std::vector<std::uint8_t> active = {1, 1};
    std::vector<std::int32_t> tokens(2, -77);
    std::vector<RowStatus> statuses(2, RowStatus::invalid_beam);
    DeviceArrays arrays;
    cuda::RowsTask task;
    float* const device = arrays.out(memory);
    std::uint8_t* const device_active = arrays.out(active);
    task.rows = {device, DType::float32, 2, kVocab, kVocab};
    task.active = {device_active, 2};
    task.min_p = 0.01F;
    task.tokens = arrays.out(tokens);
    task.statuses = arrays.out(statuses);
    Graph graph;
    Graph::begin(stream);
    require(cuda::filter_tiles(task, spread, stream.get()), "filter_tiles");
    graph.end(stream);
    graph.expect_device_work_only("filter_tiles");
    for (const float value : {0.5F, -kInfinity, 2.0F, kNan, -3.0F, kInfinity, 1.0F}) {
      for (const std::uint8_t is_active : {std::uint8_t{1}, std::uint8_t{0}, std::uint8_t{1}}) {
        std::vector<float> logits(2 * kVocab, 0.25F);
        std::fill_n(logits.begin(), kVocab, value);
        const std::vector<std::uint8_t> bytes = {is_active, 1};
        require(cudaMemcpy(device, logits.data(), logits.size() * sizeof(float),
                           cudaMemcpyHostToDevice),
                "cudaMemcpy");
        require(cudaMemcpy(device_active, bytes.data(), 2, cudaMemcpyHostToDevice), "cudaMemcpy");
        require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
        graph.launch(stream);
        arrays.fetch();
        for (std::size_t i = 0; i < 2; ++i) {
          const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(i) * kVocab;
          const RandomTileRow row = tile_row_of({begin, begin + kVocab}, 1.0F);
          const Expected expected(row, 0.01F,
                                  random_word(0, 0, Purpose::draw, static_cast<std::uint32_t>(i)));
          const bool inactive = bytes[i] == 0;
          EXPECT_EQ(statuses[i], inactive ? RowStatus::inactive : expected.status) << value;
          EXPECT_EQ(tokens[i], inactive ? -1 : expected.token) << value << describe(spread);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
