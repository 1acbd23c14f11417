// tile_index on the GPU must equal the definition on every spread of a row, and the CPU's results
// as a whole call.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "cuda/outputs/index_tiles.h"
#include "fairdraw/cuda_tile_index.h"
#include "harness/inputs/owned_call.h"
#include "tests/cuda/graphs.h"
#include "tests/cuda/tile_rows_on_device.h"
#include "tests/sample/random_rows.h"

namespace fairdraw::suites {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Keys, sums and statuses of tiles, which are filled beforehand with values that no call writes.
struct Index {
  std::int64_t rows, stride;
  std::vector<std::int32_t> keys;
  std::vector<std::uint64_t> sums;
  std::vector<RowStatus> statuses;
  bool operator==(const Index&) const = default;

  Index(std::int64_t rows_, std::int64_t stride_)
      : rows(rows_),
        stride(stride_),
        keys(static_cast<std::size_t>(rows * stride), 77),
        sums(static_cast<std::size_t>(rows * stride), 77),
        statuses(static_cast<std::size_t>(rows), RowStatus::invalid_beam) {}

  TileIndexResult on_device(DeviceArrays& arrays) {
    return {{arrays.out(keys), rows, stride},
            {arrays.out(sums), rows, stride},
            {arrays.out(statuses), rows}};
  }
  TileIndexResult view() {
    return {{keys.data(), rows, stride}, {sums.data(), rows, stride}, {statuses.data(), rows}};
  }
};

TEST(CudaTileIndex, RowsEqualTheDefinitionOnEverySpread) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  int failed_rows = 0;
  int ok_rows = 0;
  DeviceArrays arrays;
  for (std::uint64_t number = 0; number < 400; ++number) {
    const RandomTileRow row = random_tile_row(9100000 + number, tile_vocab(number));
    const ExpectedIndex expected = expected_index(row);
    ++(expected.status == RowStatus::ok ? ok_rows : failed_rows);
    for (const cuda::TileSpread& spread : tile_spreads()) {
      arrays.rewind();
      TileIndexRequest request;
      request.rows = rows_on_device(row, arrays);
      request.input = row.input;
      request.temperature = row.temperature;
      request.allowed = allowed_on_device(row, arrays);
      Index got(1, tiles_of(row.vocab()));
      require(cuda::index_tiles(request, got.on_device(arrays), spread, nullptr), "index_tiles");
      arrays.fetch();
      ASSERT_EQ(got.statuses[0], expected.status) << describe(row) << ", " << describe(spread);
      ASSERT_EQ(got.keys, expected.keys) << describe(row) << ", " << describe(spread);
      ASSERT_EQ(got.sums, expected.sums) << describe(row) << ", " << describe(spread);
    }
  }
  EXPECT_GT(ok_rows, 200);
  EXPECT_GT(failed_rows, 10);
}

/// A batch with one temperature per row, bits of allowed tokens and padding, on the host and in
/// device memory.
struct Batch {
  static constexpr std::int64_t kRows = 13;

  harness::OwnedCall call;
  harness::HostArrays host;
  std::vector<float> temperatures;
  std::vector<std::uint32_t> allowed;
  std::vector<std::uint8_t> active;

  Batch(DType dtype, std::int64_t vocab, std::int64_t stride, std::size_t shift) {
    call.allocate(dtype, kRows, vocab, stride, shift);
    std::mt19937 bits(7);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const RandomRow row =
          random_row_of(7100000 + static_cast<std::uint64_t>(i), static_cast<std::size_t>(vocab));
      call.set_row(i, row.logits.data());
      temperatures.push_back(i == 2 ? kNan : i == 3 ? 0.0F : row.parameters.temperature);
      active.push_back(i == 5 ? 0 : 1);
      for (std::int64_t word = 0; word < (vocab + 31) / 32; ++word) {
        const std::uint_fast32_t some = bits();
        // three of four tokens are allowed
        allowed.push_back(static_cast<std::uint32_t>(some | bits()));
      }
    }
  }

  template <class Arrays>
  TileIndexRequest request(Arrays& arrays) const {
    TileIndexRequest request;
    request.rows = harness::request_in(call, arrays).logits;
    request.temperature = {arrays.in(temperatures), kRows};
    request.allowed = {arrays.in(allowed), kRows, (request.rows.vocab + 31) / 32};
    request.active = {arrays.in(active), kRows};
    return request;
  }
};

TEST(CudaTileIndex, BatchesEqualTheCpuInAnyDtypeStrideAndAlignment) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    for (const std::int64_t extra : {0, 1, 7, 16}) {
      for (const std::size_t shift : {0U, 1U, 2U, 4U, 32U}) {
        const std::int64_t vocab = 1536 + extra / 2;
        const Batch batch(dtype, vocab, vocab + extra, shift);
        harness::HostArrays host;
        Index expected(Batch::kRows, tiles_of(vocab) + 2);
        ASSERT_FALSE(tile_index(batch.request(host), expected.view()));
        DeviceArrays arrays;
        Index got(Batch::kRows, tiles_of(vocab) + 2);
        const Error error = cuda::tile_index(batch.request(arrays), got.on_device(arrays));
        ASSERT_FALSE(error) << error.message;
        arrays.fetch();
        EXPECT_EQ(got, expected) << to_string(dtype) << ", " << extra << " values between rows, "
                                 << shift << " bytes into the block";
        EXPECT_EQ(got.statuses[2], RowStatus::invalid_temperature);
        EXPECT_EQ(got.statuses[5], RowStatus::inactive);
      }
    }
  }
}

TEST(CudaTileIndex, AReplayedGraphReadsRowsAnew) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kVocab = 40000;
  Stream stream;
  std::vector<float> logits(2 * kVocab, 0.0F);
  std::vector<float> memory = logits;
  DeviceArrays arrays;
  TileIndexRequest request;
  float* const device = arrays.out(memory);
  request.rows = {device, DType::float32, 2, kVocab, kVocab};
  Index got(2, tiles_of(kVocab));
  const TileIndexResult result = got.on_device(arrays);
  Graph graph;
  Graph::begin(stream);
  const Error error = cuda::tile_index(request, result, stream.get());
  ASSERT_FALSE(error) << error.message;
  graph.end(stream);
  graph.expect_device_work_only("tile_index");
  // Each replay has rows of another kind: valid, all -inf, with a NaN, with a +inf.
  for (const float value : {0.5F, -kInfinity, 2.0F, kNan, -3.0F, kInfinity, 1.0F}) {
    std::fill_n(logits.begin(), kVocab, value);
    require(
        cudaMemcpy(device, logits.data(), logits.size() * sizeof(float), cudaMemcpyHostToDevice),
        "cudaMemcpy");
    require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    graph.launch(stream);
    arrays.fetch();
    TileIndexRequest on_host = request;
    on_host.rows.data = logits.data();
    Index expected(2, tiles_of(kVocab));
    ASSERT_FALSE(tile_index(on_host, expected.view()));
    EXPECT_EQ(got.statuses, expected.statuses) << value;
    EXPECT_EQ(got.keys, expected.keys) << value;
    EXPECT_EQ(got.sums, expected.sums) << value;
  }
}

TEST(CudaTileIndex, HostMemoryAndMissingResultsAreNamed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::vector<float> logits(300, 1.0F);
  DeviceArrays arrays;
  Index got(1, 2);
  TileIndexRequest request;
  request.rows = {logits.data(), DType::float32, 1, 300, 300};
  const TileIndexResult result = got.on_device(arrays);
  EXPECT_NE(cuda::tile_index(request, result).message.find("rows"), std::string::npos);
  request.rows.data = arrays.in(logits);
  EXPECT_FALSE(cuda::tile_index(request, result));
  TileIndexResult on_host = result;
  on_host.sums.data = got.sums.data();
  EXPECT_NE(cuda::tile_index(request, on_host).message.find("sums"), std::string::npos);
  on_host.sums.data = nullptr;
  EXPECT_NE(cuda::tile_index(request, on_host).message.find("sums"), std::string::npos);
  request.rows.rows = 0;
  EXPECT_FALSE(cuda::tile_index(request, {{nullptr, 0, 2}, {nullptr, 0, 2}, {}}));
  arrays.fetch();
}

}  // namespace
}  // namespace fairdraw::suites
