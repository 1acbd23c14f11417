// `fairdraw bench --backend cuda`: times of calls on a GPU relative to the read-once floor or to
// another call.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {

/// Returns true for cuda, cuda:cluster and cuda:block.
bool is_cuda_backend(const std::string& backend);

/// Returns whether a name has the prefix of an operation that is measured only on GPUs.
bool is_cuda_operation(const std::string& name);

/// Measures every backend in `backends`, all of them CUDA backends, by the lists of `options`.
/// Empty lists mean those of README.md for the operation. Operations beside `sample`:
///   from_probs/FILTERS  the operation of fairdraw/sampling.h that takes probabilities and has
///   these filters, given the softmax of the logits; kept/FILTERS   `sample` with kept sets,
///   relative to the same call without; logprobs/MODE/N+FILTERS   `sample` with a report, likewise;
///   step/FILTERS  cuda_step_benchmarks.h; calls with N drafts or beams  cuda_calls.h.
/// Compares tokens and kept sets of some rows of every cell with the CPU's, and requires ok
/// statuses. Adds a line to `failures` for each cell that differs. Throws harness::UsageError if a
/// backend cannot run here or lacks an operation, and std::runtime_error for errors of the GPU.
std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions& options,
                                                          const std::vector<std::string>& backends,
                                                          std::vector<std::string>& failures);

}  // namespace fairdraw::suites
