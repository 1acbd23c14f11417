// fairdraw bench --backend cuda: samplers on a GPU relative to the read-once floor.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/benchmarks/benchmarks.h"
#include "suites/gate/cases/operation.h"

namespace fairdraw::suites {

/// True for cuda, cuda:cluster and cuda:block.
bool is_cuda_backend(const std::string& backend);

/// Measures every backend in `backends`, all of them cuda ones, by the lists of `options`; empty
/// lists are those of the table in README.md. Tokens of some rows of every cell are compared with
/// the CPU's, and all statuses have to be ok: what does not hold is added to `failures`, a line
/// that names the cell. Throws harness::UsageError where a backend cannot run here, and
/// std::runtime_error where the GPU gives an error.
std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions& options,
                                                          const std::vector<std::string>& backends,
                                                          std::vector<std::string>& failures);

}  // namespace fairdraw::suites
