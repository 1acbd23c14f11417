// Times of what is done by tiles on a GPU, relative to the read-once floor: a line a cell.
//
//   tile_benchmark [VOCAB [DTYPE]]     e.g. tile_benchmark 128256 bfloat16
//
// The index of rows as they are, with bits of allowed tokens, and at an odd address and stride; and
// whole calls: no filter, greedy, min_p 0.05, by their own kernel and (*) by that for rows of any
// kind; top_p 0.9, top_k 50 alone and with it, top_k 1000 and 5000. Peaked and flat logits, 1, 8,
// 64 and 256 rows. What a row's tokens have to be is for kernels/tests/cuda to check, not for this
// program.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/parameters.h"
#include "cuda/tiles/filter_tiles.h"
#include "cuda/tiles/index_tiles.h"
#include "cuda/tiles/sample_tiles.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_timing.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {
namespace {

constexpr int kRepetitions = 30;
constexpr std::int64_t kDistinctRows = 64;  // repeated to fill a batch

/// Rows in device memory, with a value of room behind them for rows at an odd address.
class DeviceRows {
 public:
  DeviceRows(const Rows& rows, std::int64_t batch, const cuda::Stream& stream)
      : view_(rows.view()) {
    const std::int64_t row_bytes = view_.vocab * value_bytes();
    expect_success(buffer_.reserve((batch * view_.vocab + 1) * value_bytes()), "rows");
    const auto* data = static_cast<const std::uint8_t*>(view_.data);
    for (std::int64_t row = 0; row < batch; ++row) {
      expect_success(
          buffer_.upload(row * row_bytes, data + row % view_.rows * row_bytes, row_bytes, stream),
          "rows");
    }
    expect_success(cudaStreamSynchronize(handle(stream)), "rows");
    view_.data = buffer_.data();
    view_.rows = batch;
  }

  const RowsView& view() const { return view_; }
  std::int64_t bytes() const { return view_.rows * view_.vocab * value_bytes(); }

  /// The same bytes less one value a row, off by one value.
  RowsView odd() const {
    RowsView rows = view_;
    rows.data = static_cast<const std::uint8_t*>(view_.data) + value_bytes();
    rows.vocab = view_.vocab - 1;
    rows.row_stride = view_.vocab;
    return rows;
  }

 private:
  std::int64_t value_bytes() const { return view_.dtype == DType::float32 ? 4 : 2; }

  RowsView view_;
  cuda::DeviceBuffer buffer_;
};

/// Calls over the same rows, timed in alternation with the floor.
class Cell {
 public:
  Cell(const Rows& rows, std::int64_t batch, const cuda::Stream& stream, ColdTimer& timer)
      : stream_(stream),
        timer_(timer),
        rows_(rows, batch, stream),
        floor_(rows_.view().data, rows_.view().dtype, rows_.bytes(), stream, timer),
        tiles_(tiles_of(rows_.view().vocab)),
        keys_(std::vector<std::int32_t>(static_cast<std::size_t>(batch * tiles_)), stream),
        sums_(std::vector<std::uint64_t>(static_cast<std::size_t>(batch * tiles_)), stream),
        tokens_(std::vector<std::int32_t>(static_cast<std::size_t>(batch)), stream),
        allowed_(std::vector<std::uint32_t>(static_cast<std::size_t>(batch * words()), kMostBits),
                 stream) {
    const bool has_clusters = cuda::is_available(cuda::Path::cluster);
    expect_success(cuda::best_spread(rows_.view(),
                                     has_clusters ? cuda::Path::best : cuda::Path::block, spread_),
                   "best_spread");
  }

  /// What is timed.
  struct Named {
    std::string name;
    std::function<cudaError_t()> call;
  };

  /// Microseconds of the floor, then of each of calls().
  std::vector<double> times() const {
    std::vector<std::unique_ptr<CapturedCall>> captured;
    std::vector<TimedCall> timed = {{&floor_.call(), {}}};
    for (const Named& named : calls()) {
      captured.push_back(std::make_unique<CapturedCall>(
          stream_, [&named] { expect_success(named.call(), named.name); }));
      timed.push_back({captured.back().get(), {}});
    }
    return timer_.medians(timed, kRepetitions);
  }

  std::vector<Named> calls() const {
    const BitRows<const std::uint32_t> bits{allowed_.data(), rows_.view().rows, words()};
    std::vector<Named> calls = {{"index", [this] { return index(rows_.view(), {}); }},
                                {"masked", [this, bits] { return index(rows_.view(), bits); }},
                                {"odd", [this] { return index(rows_.odd(), {}); }}};
    const auto add = [&](const std::string& name, const RowParameters& parameters, bool general) {
      calls.push_back({name, [this, parameters, general] { return sample(parameters, general); }});
    };
    const RowParameters none{1.0F, 0, 1.0F, 0.0F};
    const RowParameters greedy{0.0F, 0, 1.0F, 0.0F};
    const RowParameters min_p{1.0F, 0, 1.0F, 0.05F};
    for (const bool general : {false, true}) {
      const std::string mark = general ? "*" : "";
      add("none" + mark, none, general);
      add("greedy" + mark, greedy, general);
      add("min_p" + mark, min_p, general);
    }
    add("top_p", {1.0F, 0, 0.9F, 0.0F}, true);
    add("k50", {1.0F, 50, 1.0F, 0.0F}, true);
    add("k50 p.9", {1.0F, 50, 0.9F, 0.0F}, true);
    add("k1000", {1.0F, 1000, 1.0F, 0.0F}, true);
    add("k5000", {1.0F, 5000, 1.0F, 0.0F}, true);
    return calls;
  }

 private:
  static constexpr std::uint32_t kMostBits = 0xfff7f7f7U;

  std::int64_t words() const { return (rows_.view().vocab + 31) / 32; }

  cudaError_t index(const RowsView& rows, const BitRows<const std::uint32_t>& allowed) const {
    TileIndexRequest request;
    request.rows = rows;
    request.allowed = allowed;
    const TileIndexResult result{
        {keys_.data(), rows.rows, tiles_}, {sums_.data(), rows.rows, tiles_}, {}};
    return cuda::index_tiles(request, result, spread_, handle(stream_));
  }

  /// general: by the kernel for rows of any kind.
  cudaError_t sample(const RowParameters& parameters, bool general) const {
    cuda::RowsTask task;
    task.rows = rows_.view();
    task.temperature = parameters.temperature;
    task.top_k = parameters.top_k;
    task.top_p = parameters.top_p;
    task.min_p = parameters.min_p;
    task.seed = std::uint64_t{1};
    task.tokens = tokens_.data();
    return general ? cuda::filter_tiles(task, spread_, handle(stream_))
                   : cuda::sample_tiles(task, spread_, handle(stream_));
  }

  const cuda::Stream& stream_;
  ColdTimer& timer_;
  DeviceRows rows_;
  Floor floor_;
  std::int64_t tiles_;
  DeviceArray<std::int32_t> keys_;
  DeviceArray<std::uint64_t> sums_;
  DeviceArray<std::int32_t> tokens_;
  DeviceArray<std::uint32_t> allowed_;
  cuda::TileSpread spread_;
};

void run(std::int64_t vocab, const std::string& dtype) {
  cuda::Stream stream;
  expect_success(stream.create(), "a stream");
  ColdTimer timer(stream);
  timer.warm_up();
  for (const std::string logits : {"peaked", "flat"}) {
    const Rows rows = make_rows(logits, kDistinctRows, vocab, dtype, "");
    for (const std::int64_t batch : {1, 8, 64, 256}) {
      const Cell cell(rows, batch, stream, timer);
      const std::vector<double> times = cell.times();
      fmt::print("{} {} x {} {}: floor {:.1f} us", logits, batch, vocab, dtype, times[0]);
      const std::vector<Cell::Named> calls = cell.calls();
      for (std::size_t i = 0; i < calls.size(); ++i) {
        fmt::print(", {} {:.1f} ({:.2f})", calls[i].name, times[i + 1], times[i + 1] / times[0]);
      }
      fmt::print("\n");
      static_cast<void>(std::fflush(stdout));
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites

int main(int count, char** arguments) {
  try {
    const std::int64_t vocab = count > 1 ? std::strtoll(arguments[1], nullptr, 10) : 128256;
    fairdraw::suites::run(vocab, count > 2 ? arguments[2] : "float32");
  } catch (const std::exception& error) {
    fmt::print(stderr, "tile_benchmark: {}\n", error.what());
    return 1;
  }
  return 0;
}
