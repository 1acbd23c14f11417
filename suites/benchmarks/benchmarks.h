// `fairdraw bench` measures times of samplers relative to their floor and their peers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/run/evidence/record.h"
#include "suites/gate/cases/operation.h"

namespace fairdraw::suites {

/// Options of a benchmark. An empty list means the list of the backend's table in README.md.
struct BenchmarkOptions {
  std::vector<std::string> backends;  ///< names of samplers, or peer:sort, peer:softmax; empty: cpu
  std::vector<std::string> operations;
  std::vector<std::int64_t> vocabs;
  std::vector<std::int64_t> batches;
  std::vector<std::string> dtypes;
  std::vector<std::string> logits;
  std::vector<std::string> processing = {"none"};  ///< benchmark_processing.h
  std::vector<std::string> logprobs;  ///< on the CPU: reports MODE/N, which are measured relative
                                      ///< to the plain call
  std::vector<int> threads = {1};     ///< on the CPU
  double milliseconds = 60;           ///< on the CPU: milliseconds for each row of the table, with
                                      ///< at least 15 repetitions
  std::string parameters = "array";   ///< on a GPU: whether parameters have one value per row
                                      ///< (array) or per call (scalar)
  std::string data_directory;         ///< folder with captured logits
};

double median(std::vector<double> values);

/// Parses an operation of `sample`; the name may have the prefix `sample/`.
Operation sample_operation(const std::string& name);

/// Returns the name of a measured call in records, such as `sample/top_k_50` or
/// `sample/top_k_50/penalties`.
std::string call_name(const Operation& operation, const std::string& processing);

/// Returns a call of `sample` for an operation. The request has one value for each parameter, seed
/// 1, and no logits.
SampleRequest request_of(const Operation& operation);

/// The report that a call makes besides its tokens: log-probabilities of the drawn tokens and of
/// the `top_n` largest.
struct Report {
  std::string name;  ///< MODE/N; empty: nothing
  LogprobsMode mode = LogprobsMode::raw_logprobs;
  std::int32_t top_n = 0;

  bool given() const { return !name.empty(); }
};

/// Parses MODE/N. Throws harness::UsageError that names `field` if `name` does not name a report.
Report parse_report(const std::string& field, const std::string& name);

template <class T>
std::vector<T> repeated(std::int64_t n, T value) {
  return std::vector<T>(static_cast<std::size_t>(n), value);
}

template <class T>
View<const T> read_only(View<T> view) {
  return {view.data, view.size};
}

/// Allocates the arrays of a report of `batch` tokens in the memory of `arrays`.
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

/// Measures all combinations of the options, and returns one record per combination. Throws
/// harness::UsageError for unknown names. Adds a line to `failures` for each wrong token. Tokens
/// are compared on GPUs only, because `verify` judges the CPU.
std::vector<harness::BenchmarkRecord> run_benchmarks(const BenchmarkOptions& options,
                                                     std::vector<std::string>& failures);

}  // namespace fairdraw::suites
