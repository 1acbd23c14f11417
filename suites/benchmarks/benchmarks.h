// fairdraw bench: samplers beside their floor and their peers.
#pragma once

#include <string>
#include <vector>

#include "harness/run/record.h"

namespace CLI {
class App;
}

namespace fairdraw::suites {

struct BenchmarkOptions {
  std::vector<std::string> backends;    ///< sampler names, peer:sort, peer:softmax; empty: cpu
  std::vector<std::string> operations;  ///< names of operations; empty: the list of the README
  std::vector<std::int64_t> vocabs = {131072};
  std::vector<std::int64_t> batches = {1};
  std::vector<std::string> dtypes = {"float32"};
  std::vector<std::string> logits = {"peaked", "flat"};
  std::vector<int> threads = {1};
  double milliseconds = 60;    ///< to spend on each row, at least 15 repetitions
  std::string data_directory;  ///< where the captured logits are
};

/// Declares the options of the verb.
void add_benchmark_options(CLI::App& app, BenchmarkOptions& options);

/// Measures; one record a combination. Throws harness::UsageError for unknown names.
std::vector<harness::BenchmarkRecord> run_benchmarks(const BenchmarkOptions& options);

}  // namespace fairdraw::suites
