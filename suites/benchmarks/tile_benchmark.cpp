// Times of what is done by tiles on a GPU, relative to the read-once floor: a line a cell.
//
//   tile_benchmark [VOCAB [DTYPE [BLOCKS ...]]]     e.g. tile_benchmark 128256 bfloat16
//
// The index of rows as they are, with bits of allowed tokens, and at an odd address and stride; and
// whole calls with arrays of parameters: no filter (= by scalars too), greedy, min_p 0.05, top_p
// 0.9, top_k 50 alone and with it, top_k 1000 and 5000. Peaked and flat logits, 1, 8, 64 and 256
// rows. BLOCKS: numbers of blocks of a row to try, in place of the one that best_spread chooses.
// After each name: microseconds in turns with all other calls, whose instructions it then finds in
// no cache; relative to the floor; and microseconds in turns with the floor alone. What a row's
// tokens have to be is for kernels/tests/cuda to check, not for this program.
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
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_timing.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {
namespace {

constexpr int kRepetitions = 30;
constexpr std::int64_t kDistinctRows = 64;  // repeated to fill a batch

/// A call's parameters, one of each a row in device memory.
class ParameterArrays {
 public:
  ParameterArrays(const RowParameters& parameters, std::int64_t batch, const cuda::Stream& stream)
      : temperature_(repeated(parameters.temperature, batch), stream),
        top_k_(repeated(parameters.top_k, batch), stream),
        top_p_(repeated(parameters.top_p, batch), stream),
        min_p_(repeated(parameters.min_p, batch), stream) {}

  void give(cuda::RowsTask& task) const {
    task.temperature = temperature_.per_request();
    task.top_k = top_k_.per_request();
    task.top_p = top_p_.per_request();
    task.min_p = min_p_.per_request();
  }

 private:
  template <class T>
  static std::vector<T> repeated(T value, std::int64_t batch) {
    return std::vector<T>(static_cast<std::size_t>(batch), value);
  }

  DeviceArray<float> temperature_;
  DeviceArray<std::int32_t> top_k_;
  DeviceArray<float> top_p_, min_p_;
};

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
  /// blocks: of a row; 0: as best_spread chooses.
  Cell(const Rows& rows, std::int64_t batch, int blocks, const cuda::Stream& stream,
       ColdTimer& timer)
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
    if (blocks != 0) spread_.blocks = blocks;
  }

  int blocks() const { return spread_.blocks; }

  /// What is timed.
  struct Named {
    std::string name;
    std::function<cudaError_t()> call;
  };

  /// Microseconds.
  struct Times {
    std::vector<double> in_turns;  ///< of the floor, then of each of calls(), one after the other
    std::vector<double> alone;     ///< the same, each in turns with the floor alone
  };

  Times times() const {
    const std::vector<Named> calls = this->calls();  // which own what is captured
    std::vector<std::unique_ptr<CapturedCall>> captured;
    std::vector<TimedCall> timed = {{&floor_.call(), {}}};
    for (const Named& named : calls) {
      captured.push_back(std::make_unique<CapturedCall>(
          stream_, [&named] { expect_success(named.call(), named.name); }));
      timed.push_back({captured.back().get(), {}});
    }
    Times times{timer_.medians(timed, kRepetitions), {}};
    for (const TimedCall& call : timed) {
      times.alone.push_back(timer_.medians({timed.front(), call}, kRepetitions).back());
    }
    return times;
  }

  std::vector<Named> calls() const {
    const BitRows<const std::uint32_t> bits{allowed_.data(), rows_.view().rows, words()};
    std::vector<Named> calls;
    const auto add = [&](const std::string& name, const RowParameters& parameters) {
      const auto arrays = std::make_shared<ParameterArrays>(parameters, rows_.view().rows, stream_);
      calls.push_back({name, [this, arrays] {
                         cuda::RowsTask task = this->task();
                         arrays->give(task);
                         return filter(task);
                       }});
    };
    calls.push_back({"index", [this] { return index(rows_.view(), {}); }});
    add("none", {1.0F, 0, 1.0F, 0.0F});
    calls.push_back({"masked", [this, bits] { return index(rows_.view(), bits); }});
    calls.push_back({"none=", [this] { return filter(task()); }});
    calls.push_back({"odd", [this] { return index(rows_.odd(), {}); }});
    add("greedy", {0.0F, 0, 1.0F, 0.0F});
    add("min_p", {1.0F, 0, 1.0F, 0.05F});
    add("top_p", {1.0F, 0, 0.9F, 0.0F});
    add("k50", {1.0F, 50, 1.0F, 0.0F});
    add("k50 p.9", {1.0F, 50, 0.9F, 0.0F});
    add("k1000", {1.0F, 1000, 1.0F, 0.0F});
    add("k5000", {1.0F, 5000, 1.0F, 0.0F});
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

  cudaError_t filter(const cuda::RowsTask& task) const {
    return cuda::filter_tiles(task, spread_, handle(stream_));
  }

  /// A draw without filters.
  cuda::RowsTask task() const {
    cuda::RowsTask task;
    task.rows = rows_.view();
    task.seed = std::uint64_t{1};
    task.tokens = tokens_.data();
    return task;
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

void run(std::int64_t vocab, const std::string& dtype, const std::vector<int>& all_blocks) {
  cuda::Stream stream;
  expect_success(stream.create(), "a stream");
  ColdTimer timer(stream);
  timer.warm_up();
  for (const std::string logits : {"peaked", "flat"}) {
    const Rows rows = make_rows(logits, kDistinctRows, vocab, dtype, "");
    for (const std::int64_t batch : {1, 8, 64, 256}) {
      for (const int blocks : all_blocks) {
        const Cell cell(rows, batch, blocks, stream, timer);
        const Cell::Times times = cell.times();
        const double floor = times.in_turns[0];
        fmt::print("{} {} x {} {}, {} blocks: floor {:.1f} us", logits, batch, vocab, dtype,
                   cell.blocks(), floor);
        const std::vector<Cell::Named> calls = cell.calls();
        for (std::size_t i = 0; i < calls.size(); ++i) {
          fmt::print(", {} {:.1f} ({:.2f}) {:.1f}", calls[i].name, times.in_turns[i + 1],
                     times.in_turns[i + 1] / floor, times.alone[i + 1]);
        }
        fmt::print("\n");
        static_cast<void>(std::fflush(stdout));
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites

int main(int count, char** arguments) {
  try {
    const std::int64_t vocab = count > 1 ? std::strtoll(arguments[1], nullptr, 10) : 128256;
    std::vector<int> blocks;
    for (int i = 3; i < count; ++i) blocks.push_back(std::atoi(arguments[i]));
    if (blocks.empty()) blocks = {0};
    fairdraw::suites::run(vocab, count > 2 ? arguments[2] : "float32", blocks);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tile_benchmark: {}\n", error.what());
    return 1;
  }
  return 0;
}
