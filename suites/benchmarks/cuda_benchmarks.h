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

/// What is called: `sample`, given logits; the operations of fairdraw/sampling.h that take
/// probabilities, given the softmax of such logits; or `sample` with kept sets
/// (fairdraw/cuda_kept_sets.h), relative to the same call without them.
enum class BenchmarkInput { logits, probs, logits_with_kept_sets };

/// In front of the name of an operation that is given probabilities.
inline constexpr const char* kFromProbsPrefix = "from_probs/";
bool is_from_probs_operation(const std::string& name);

/// In front of the name of an operation whose call has kept sets.
inline constexpr const char* kKeptPrefix = "kept/";
bool is_kept_operation(const std::string& name);

/// Measures every backend in `backends`, all of them cuda ones, by the lists of `options`; empty
/// lists are those of the table in README.md. From probabilities those are float32, and filters
/// what the functions take: none, one of them, or top_k and top_p. Tokens of some rows of every
/// cell, and their kept sets, are compared with the CPU's, and all statuses have to be ok: what
/// does not hold is added to `failures`, a line that names the cell. Throws harness::UsageError
/// where a backend cannot run here, and std::runtime_error where the GPU gives an error.
std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions& options,
                                                          const std::vector<std::string>& backends,
                                                          BenchmarkInput input,
                                                          std::vector<std::string>& failures);

}  // namespace fairdraw::suites
