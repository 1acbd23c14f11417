// fairdraw bench: samplers relative to their floor and their peers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/run/evidence/record.h"
#include "suites/gate/cases/operation.h"

namespace fairdraw::suites {

/// Empty lists: those of the backend's table in README.md.
struct BenchmarkOptions {
  std::vector<std::string> backends;  ///< sampler names, peer:sort, peer:softmax; empty: cpu
  std::vector<std::string> operations;
  std::vector<std::int64_t> vocabs;
  std::vector<std::int64_t> batches;
  std::vector<std::string> dtypes;
  std::vector<std::string> logits;
  std::vector<std::string> processing = {"none"};  ///< benchmark_processing.h
  std::vector<std::string> logprobs;  ///< on the CPU: MODE/N, relative to the plain call
  std::vector<int> threads = {1};     ///< on the CPU
  double milliseconds = 60;           ///< on the CPU, to spend on each row, at least 15 repetitions
  std::string parameters = "array";   ///< on a GPU: one value a row (array), or one a call (scalar)
  std::string data_directory;         ///< where the captured logits are
};

double median(std::vector<double> values);

/// Reads an operation of `sample`, by its name with `sample/` in front or without.
Operation sample_operation(const std::string& name);

/// Name of a measured call in records: `sample/top_k_50`, `sample/top_k_50/penalties`.
std::string call_name(const Operation& operation, const std::string& processing);

/// A call of `sample` as the operation says, every parameter one for the call, with seed 1; without
/// logits.
SampleRequest request_of(const Operation& operation);

/// What a call reports besides its tokens: log-probabilities of these, and of the `top_n` largest.
struct Report {
  std::string name;  ///< MODE/N; empty: nothing
  LogprobsMode mode = LogprobsMode::raw_logprobs;
  std::int32_t top_n = 0;

  bool given() const { return !name.empty(); }
};

/// Reads MODE/N. Throws harness::UsageError, which names `field`.
Report parse_report(const std::string& field, const std::string& name);

template <class T>
std::vector<T> repeated(std::int64_t n, T value) {
  return std::vector<T>(static_cast<std::size_t>(n), value);
}

template <class T>
View<const T> read_only(View<T> view) {
  return {view.data, view.size};
}

/// Room for a report of `batch` tokens in the memory of `arrays`.
template <class Arrays>
LogprobsResult room_for(const Report& report, std::int64_t batch, Arrays& arrays) {
  LogprobsResult result;
  result.mode = report.mode;
  result.top_n = report.top_n;
  result.values = arrays.view(repeated(batch, 0.0F));
  result.ranks = arrays.view(repeated(batch, std::int32_t{0}));
  if (report.top_n == 0) return result;
  result.top_ids = arrays.view(repeated(batch * report.top_n, std::int32_t{0}));
  result.top_values = arrays.view(repeated(batch * report.top_n, 0.0F));
  return result;
}

/// Measures; one record a combination. Throws harness::UsageError for unknown names. Tokens that
/// are wrong are added to `failures`, a line each (compared on GPUs alone: verify judges the CPU).
std::vector<harness::BenchmarkRecord> run_benchmarks(const BenchmarkOptions& options,
                                                     std::vector<std::string>& failures);

}  // namespace fairdraw::suites
