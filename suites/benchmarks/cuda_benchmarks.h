// `fairdraw bench --backend cuda` measures times of calls on a GPU, relative to the read-once floor
// or to another call.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {

/// Returns whether the backend is cuda, cuda:cluster or cuda:block.
bool is_cuda_backend(const std::string& backend);

/// Returns whether the name has the prefix of an operation that is measured on GPUs alone.
bool is_cuda_operation(const std::string& name);

/// Measures every backend in `backends`, all of which are CUDA backends, by the lists of `options`.
/// An empty list means the list of README.md for the operation. Besides `sample` there are these
/// operations.
///   from_probs/FILTERS        the operation of fairdraw/sampling.h that takes probabilities and
///                             has these filters, given the softmax of the logits
///   kept/FILTERS              `sample` with kept sets, relative to the same call without them
///   marked/FILTERS            `sample_marked` by a race, relative to `sample` without marks
///   logprobs/MODE/N+FILTERS   `sample` with a report, relative to the same call without it
///   step/FILTERS              cuda_step_benchmarks.h describes it
///   calls with N drafted tokens or beams: cuda_calls.h describes them
/// In every cell, tokens and kept sets of some rows are compared with the CPU's, and statuses must
/// be ok. Adds a line to `failures` for each cell in which the results differ. Throws
/// harness::UsageError if this machine cannot run a backend, or the backend lacks an operation.
/// Throws std::runtime_error for errors of the GPU.
std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions& options,
                                                          const std::vector<std::string>& backends,
                                                          std::vector<std::string>& failures);

}  // namespace fairdraw::suites
