// fairdraw bench --backend cuda: calls on a GPU relative to the read-once floor or to another call.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {

/// True for cuda, cuda:cluster and cuda:block.
bool is_cuda_backend(const std::string& backend);

/// True for names of operations that are measured on a GPU alone, as these begin.
bool is_cuda_operation(const std::string& name);

/// Measures every backend in `backends`, all of them cuda ones, by the lists of `options`; empty
/// lists are those of README.md for the operation. Operations beside `sample`:
///   from_probs/FILTERS  the operation of fairdraw/sampling.h that takes probabilities and has
///   these filters, given the softmax of the logits; kept/FILTERS   `sample` with kept sets,
///   relative to the same call without; logprobs/MODE/N+FILTERS   `sample` with a report, likewise;
///   step/FILTERS  cuda_step_benchmarks.h; calls with N drafts or beams  cuda_calls.h.
/// Tokens of some rows of every cell, and their kept sets, are compared with the CPU's, and all
/// statuses have to be ok: what does not hold is added to `failures`, a line that names the cell.
/// Throws harness::UsageError where a backend cannot run here or has no such operation, and
/// std::runtime_error where the GPU gives an error.
std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions& options,
                                                          const std::vector<std::string>& backends,
                                                          std::vector<std::string>& failures);

}  // namespace fairdraw::suites
