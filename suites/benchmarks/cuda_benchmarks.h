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

/// What a call is given: logits for `sample`, or the softmax of such logits for the operations of
/// fairdraw/sampling.h that take probabilities.
enum class BenchmarkInput { logits, probs };

/// In front of the name of an operation that is given probabilities.
inline constexpr const char* kFromProbsPrefix = "from_probs/";
bool is_from_probs_operation(const std::string& name);

/// Measures every backend in `backends`, all of them cuda ones, by the lists of `options`; empty
/// lists are those of the table in README.md. From probabilities those are float32, and filters
/// what the functions take: none, one of them, or top_k and top_p. Tokens of some rows of every
/// cell are compared with the CPU's, and all statuses have to be ok: what does not hold is added to
/// `failures`, a line that names the cell. Throws harness::UsageError where a backend cannot run
/// here, and std::runtime_error where the GPU gives an error.
std::vector<harness::BenchmarkRecord> run_cuda_benchmarks(const BenchmarkOptions& options,
                                                          const std::vector<std::string>& backends,
                                                          BenchmarkInput input,
                                                          std::vector<std::string>& failures);

}  // namespace fairdraw::suites
