#include "suites/benchmarks/tile_benchmarks.h"

#include <fmt/format.h>

#include "fairdraw/tile_index.h"
#include "harness/contract/usage_error.h"
#include "harness/inputs/dice.h"
#include "suites/benchmarks/benchmark_rows.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

constexpr const char* kPlain = "tile_index";
constexpr const char* kMasked = "tile_index/masked";

/// The index of all rows, at temperature 1. Masked: every token is allowed or not by chance, so
/// that no word of the mask is like the one before.
class TileIndexCall {
 public:
  TileIndexCall(const std::string& operation, const std::string& backend, int threads,
                const Rows& rows)
      : execution_{target_of(backend), threads},
        keys_(static_cast<std::size_t>(rows.batch * tiles_of(rows.vocab))),
        sums_(keys_.size()),
        statuses_(static_cast<std::size_t>(rows.batch)) {
    const std::int64_t tiles = tiles_of(rows.vocab);
    const std::int64_t words = (rows.vocab + 31) / 32;
    request_.rows = rows.view();
    if (operation == kMasked) {
      harness::Dice dice(1);
      for (std::int64_t i = 0; i < rows.batch * words; ++i) {
        allowed_.push_back(static_cast<std::uint32_t>(dice.bits()));
      }
      request_.allowed = {allowed_.data(), rows.batch, words};
    }
    result_.keys = {keys_.data(), rows.batch, tiles};
    result_.sums = {sums_.data(), rows.batch, tiles};
    result_.statuses = {statuses_.data(), rows.batch};
  }
  TileIndexCall(const TileIndexCall&) = delete;
  TileIndexCall& operator=(const TileIndexCall&) = delete;

  void run() {
    const Error error = tile_index(request_, result_, execution_);
    if (error) throw UsageError(error.message);
    if (statuses_.front() != RowStatus::ok) throw UsageError(to_string(statuses_.front()));
  }

 private:
  static CpuTarget target_of(const std::string& backend) {
    for (const CpuTarget target :
         {CpuTarget::scalar, CpuTarget::avx2, CpuTarget::avx512, CpuTarget::neon}) {
      if (backend == std::string("cpu:") + to_string(target)) return target;
    }
    if (backend == "cpu") return CpuTarget::best;
    throw UsageError("tile_index is measured on the backends cpu and cpu:TARGET");
  }

  Execution execution_;
  std::vector<std::uint32_t> allowed_;
  std::vector<std::int32_t> keys_;
  std::vector<std::uint64_t> sums_;
  std::vector<RowStatus> statuses_;
  TileIndexRequest request_;
  TileIndexResult result_;
};

harness::BenchmarkRecord benchmark(const BenchmarkOptions& options, const std::string& operation,
                                   const std::string& backend, int threads, const std::string& kind,
                                   const std::string& dtype, const Rows& rows) {
  TileIndexCall call(operation, backend, threads, rows);
  const Measured measured =
      measure([&call] { call.run(); }, [&rows] { run_floor(rows, /*weights=*/false); },
              options.milliseconds);
  return {threads == 1 ? backend : fmt::format("{}@{}", backend, threads),
          operation,
          rows.batch,
          rows.vocab,
          dtype,
          kind,
          measured.microseconds,
          "max",
          measured.floor,
          measured.microseconds / measured.floor,
          /*machine=*/{}};
}

}  // namespace

bool is_tile_operation(const std::string& name) { return name.starts_with(kPlain); }

std::vector<harness::BenchmarkRecord> tile_benchmarks(const BenchmarkOptions& options,
                                                      const std::vector<std::string>& backends,
                                                      const std::vector<std::string>& operations) {
  std::vector<harness::BenchmarkRecord> records;
  for (const std::string& operation : operations) {
    if (operation != kPlain && operation != kMasked) {
      throw UsageError(fmt::format("unknown operation '{}'; of tiles there are {} and {}",
                                   operation, kPlain, kMasked));
    }
    for (const std::string& kind : options.logits) {
      for (const std::string& dtype : options.dtypes) {
        for (const std::int64_t vocab : options.vocabs) {
          for (const std::int64_t batch : options.batches) {
            const Rows rows = make_rows(kind, batch, vocab, dtype, options.data_directory);
            for (const std::string& backend : backends) {
              for (const int threads : options.threads) {
                records.push_back(
                    benchmark(options, operation, backend, threads, kind, dtype, rows));
              }
            }
          }
        }
      }
    }
  }
  return records;
}

}  // namespace fairdraw::suites
