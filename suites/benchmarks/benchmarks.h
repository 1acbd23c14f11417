// fairdraw bench: samplers relative to their floor and their peers.
#pragma once

#include <functional>
#include <string>
#include <vector>

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

struct Rows;

/// Medians of an operation and of its floor.
struct Measured {
  double microseconds = 0, floor = 0;
};

/// Operation and floor in alternation, so that a busy machine slows both.
Measured measure(const std::function<void()>& work, const std::function<void()>& floor,
                 double milliseconds);

/// A floor over all rows: F2 with weights, else F1.
void run_floor(const Rows& rows, bool weights);

/// The operations that the options name, or `defaults`.
std::vector<Operation> operations_of(const BenchmarkOptions& options,
                                     const std::vector<Operation>& defaults);

/// Name of a measured call in records: `sample/top_k_50`, `sample/top_k_50/penalties`.
std::string call_name(const Operation& operation, const std::string& processing);

/// Measures; one record a combination. Throws harness::UsageError for unknown names. Tokens that
/// are wrong are added to `failures`, a line each (compared on GPUs alone: verify judges the CPU).
std::vector<harness::BenchmarkRecord> run_benchmarks(const BenchmarkOptions& options,
                                                     std::vector<std::string>& failures);

}  // namespace fairdraw::suites
