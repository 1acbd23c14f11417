// Tokens by tiles on the GPU, without top_k and top_p: equal to draws by the definition
// (common/tile_weights.h), value by value, on every spread.
#include "cuda/tiles/sample_tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/exp2fix.h"
#include "common/float_order.h"
#include "common/min_p.h"
#include "common/philox.h"
#include "common/tile_weights.h"
#include "common/wide_integers.h"
#include "tests/cuda/graphs.h"
#include "tests/cuda/tile_rows_on_device.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Octave of a tile of a row that is ok.
double octave_of(const RandomTileRow& row, std::int32_t key) {
  return tile_octave(key, row.input, row.temperature);
}

/// What a row is drawn from: the row weight of each token, 0 for those that do not survive.
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

  /// The first token whose inclusive prefix passes R.
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
    if (row.input == TileInput::probs) {  // both products are exact in double
      return static_cast<double>(value) >= static_cast<double>(min_p) * static_cast<double>(max);
    }
    const float distance = value - max;
    return distance * logit_scale(row.temperature) >= min_p_octaves(min_p);
  }
};

/// The lowest id among the largest values.
std::int32_t greedy_token(const RandomTileRow& row, const ExpectedIndex& index) {
  const std::int32_t largest = *std::max_element(index.keys.begin(), index.keys.end());
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    if (row.is_allowed(i) && order_key(row.values[i]) == largest) {
      return static_cast<std::int32_t>(i);
    }
  }
  return -1;
}

cuda::TileSampleTask task_of(const RandomTileRow& row, DeviceArrays& arrays) {
  cuda::TileSampleTask task;
  task.rows = rows_on_device(row, arrays);
  task.from_probs = row.input == TileInput::probs;
  task.temperature = row.temperature;
  task.allowed = allowed_on_device(row, arrays);
  task.outputs = 1;
  return task;
}

/// What a row's outputs have to be: a token for each word, and the status.
struct Expected {
  RowStatus status;
  std::vector<std::int32_t> tokens;

  Expected(const RandomTileRow& row, float min_p, const std::vector<std::uint64_t>& words) {
    ExpectedIndex index = expected_index(row);
    status = index.status;
    tokens.assign(words.size(), -1);
    if (status != RowStatus::ok) return;
    if (row.temperature == 0) {
      tokens.assign(words.size(), greedy_token(row, index));
      return;
    }
    const RowWeights weights(row, index, min_p);
    for (std::size_t i = 0; i < words.size(); ++i) tokens[i] = weights.token_for(words[i]);
  }
};

std::vector<std::uint64_t> words_of_scalar(std::uint64_t seed, std::size_t count) {
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < count; ++i) {
    words.push_back(random_word(seed, 3, Purpose::draw, static_cast<std::uint32_t>(i)));
  }
  return words;
}

TEST(CudaSampleTiles, TokensAreThoseOfTheDefinitionOnEverySpread) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr float kMinP[] = {0.0F, 0.05F, 1.0F, 0x1p-149F, 0.5F};
  DeviceArrays arrays;
  for (std::uint64_t number = 0; number < 300; ++number) {
    RandomTileRow row = random_tile_row(9200000 + number, tile_vocab(number));
    if (row.input == TileInput::logits && number % 7 == 0) row.temperature = 0.0F;
    const float min_p = number % 2 == 0 ? 0.0F : kMinP[number / 2 % std::size(kMinP)];
    const std::size_t samples = number % 3 == 0 ? 40 : 1;
    const Expected expected(row, min_p, words_of_scalar(number, samples));
    for (const cuda::TileSpread& spread : tile_spreads()) {
      arrays.rewind();
      cuda::TileSampleTask task = task_of(row, arrays);
      task.min_p = min_p;
      task.num_samples = static_cast<std::int64_t>(samples);
      task.seed = number;
      task.offset = std::uint64_t{3};
      std::vector<std::int32_t> tokens(samples, -77);
      std::vector<RowStatus> statuses(1, RowStatus::invalid_beam);
      task.tokens = arrays.out(tokens);
      task.statuses = arrays.out(statuses);
      require(cuda::sample_tiles(task, spread, nullptr), "sample_tiles");
      arrays.fetch();
      ASSERT_EQ(statuses[0], expected.status) << describe(row) << ", " << describe(spread);
      ASSERT_EQ(tokens, expected.tokens)
          << describe(row) << ", " << describe(spread) << ", min_p " << min_p;
    }
  }
}

/// float32 rows of one vocabulary, most of them ok, in one matrix.
struct SharedRows {
  static constexpr std::int64_t kRows = 6;
  static constexpr std::int64_t kVocab = 2003;
  static constexpr std::int64_t kStride = kVocab + 2;

  std::vector<RandomTileRow> rows;
  std::vector<float> memory;
  std::vector<float> temperatures = {1.0F, 0.7F, 0.0F, 1.0F, 2.0F, 100.0F};
  std::vector<float> min_p = {0.0F, 0.1F, 0.0F, 0.0F, 2.0F, 0.9F};
  std::vector<std::uint8_t> active = {1, 1, 1, 0, 1, 1};

  SharedRows() : memory(static_cast<std::size_t>(kRows * kStride), kNan) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      RandomTileRow row = random_tile_row(31, kVocab);
      std::vector<float> logits(static_cast<std::size_t>(kVocab));
      for (std::size_t j = 0; j < logits.size(); ++j) {
        logits[j] = static_cast<float>((j * 7919 + static_cast<std::size_t>(i) * 31) % 997) / 100;
      }
      rows.push_back(tile_row_of(logits, temperatures[static_cast<std::size_t>(i)]));
      std::copy(logits.begin(), logits.end(), memory.begin() + i * kStride);
    }
  }
  RowStatus status(std::int64_t row) const {
    if (row < 0 || row >= kRows) return RowStatus::index_out_of_range;
    if (active[static_cast<std::size_t>(row)] == 0) return RowStatus::inactive;
    return min_p[static_cast<std::size_t>(row)] > 1 ? RowStatus::invalid_min_p : RowStatus::ok;
  }
  std::vector<std::int32_t> tokens(std::int64_t row,
                                   const std::vector<std::uint64_t>& words) const {
    if (status(row) != RowStatus::ok) return std::vector<std::int32_t>(words.size(), -1);
    const auto i = static_cast<std::size_t>(row);
    return Expected(rows[i], min_p[i], words).tokens;
  }
};

TEST(CudaSampleTiles, OutputsShareRowsByIndices) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const SharedRows shared;
  const std::vector<std::int32_t> indices = {5, 1, -1, 0, 3, 2, 1, 6, 4, 0, 5};
  constexpr std::size_t kSamples = 20;
  std::vector<std::uint64_t> seeds;
  for (std::size_t i = 0; i < indices.size(); ++i) seeds.push_back(1000 + i);
  for (const cuda::TileSpread& spread : tile_spreads()) {
    DeviceArrays arrays;
    cuda::TileSampleTask task;
    task.rows = {arrays.in(shared.memory), DType::float32, SharedRows::kRows, SharedRows::kVocab,
                 SharedRows::kStride};
    task.temperature = {arrays.in(shared.temperatures), SharedRows::kRows};
    task.min_p = {arrays.in(shared.min_p), SharedRows::kRows};
    task.active = {arrays.in(shared.active), SharedRows::kRows};
    task.outputs = static_cast<std::int64_t>(indices.size());
    task.indices = {arrays.in(indices), task.outputs};
    task.seed = {arrays.in(seeds), task.outputs};
    task.num_samples = kSamples;
    std::vector<std::int32_t> tokens(indices.size() * kSamples, -77);
    std::vector<RowStatus> statuses(indices.size(), RowStatus::invalid_beam);
    task.tokens = arrays.out(tokens);
    task.statuses = arrays.out(statuses);
    // A dirty workspace: what is in it before plays no part.
    constexpr std::size_t kEntries = SharedRows::kRows * ((SharedRows::kVocab + 255) / 256);
    std::vector<std::uint64_t> sums(kEntries, ~std::uint64_t{0});
    std::vector<std::int32_t> keys(kEntries, 0x7fffffff);
    std::vector<cuda::TileRecord> records(SharedRows::kRows, {RowStatus::ok, 9, 0x7fffffff});
    task.kept = {arrays.out(records), arrays.out(keys), arrays.out(sums)};
    require(cuda::sample_tiles(task, spread, nullptr), "sample_tiles");
    arrays.fetch();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::vector<std::uint64_t> words;
      for (std::size_t s = 0; s < kSamples; ++s) {
        words.push_back(random_word(seeds[i], 0, Purpose::draw, static_cast<std::uint32_t>(s)));
      }
      const std::vector<std::int32_t> got(
          tokens.begin() + static_cast<std::ptrdiff_t>(i * kSamples),
          tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * kSamples));
      EXPECT_EQ(statuses[i], shared.status(indices[i])) << i << ", " << describe(spread);
      EXPECT_EQ(got, shared.tokens(indices[i], words)) << i << ", " << describe(spread);
    }
  }
}

TEST(CudaSampleTiles, AReplayDoesNotDependOnTheRowsBefore) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kVocab = 30000;
  Stream stream;
  for (const cuda::TileSpread& spread : tile_spreads()) {
    std::vector<float> memory(2 * kVocab, 0.0F);
    std::vector<std::uint8_t> active = {1, 1};
    std::vector<std::int32_t> tokens(2, -77);
    std::vector<RowStatus> statuses(2, RowStatus::invalid_beam);
    DeviceArrays arrays;
    cuda::TileSampleTask task;
    float* const device = arrays.out(memory);
    std::uint8_t* const device_active = arrays.out(active);
    task.rows = {device, DType::float32, 2, kVocab, kVocab};
    task.active = {device_active, 2};
    task.min_p = 0.01F;
    task.outputs = 2;
    task.tokens = arrays.out(tokens);
    task.statuses = arrays.out(statuses);
    Graph graph;
    Graph::begin(stream);
    require(cuda::sample_tiles(task, spread, stream.get()), "sample_tiles");
    graph.end(stream);
    graph.expect_device_work_only("sample_tiles");
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
          const Expected expected(
              row, 0.01F, {random_word(0, 0, Purpose::draw, static_cast<std::uint32_t>(i))});
          const bool inactive = bytes[i] == 0;
          EXPECT_EQ(statuses[i], inactive ? RowStatus::inactive : expected.status) << value;
          EXPECT_EQ(tokens[i], inactive ? -1 : expected.tokens[0]) << value << describe(spread);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
