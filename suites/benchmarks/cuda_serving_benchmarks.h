// fairdraw bench --backend cuda: log-probabilities, verification of drafts and beams on a GPU.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {

/// True for names of operations that are measured here:
///   logprobs/MODE/N+FILTERS  `sample` with a report, relative to the same call without (the
///   floor); verify_chain_N, verify_chain_N/probs, verify_chain_N/logits   --batch requests of N
///   drafts; verify_tree_N, verify_tree_N/probs, verify_tree_N/logits   of N drafts, two children a
///   node;
///   chain_speculative_sampling_N   target and draft as probabilities;
///   beam_N, beam_N/logprobs  a step of --batch requests of N beams (on a GPU).
bool is_serving_operation(const std::string& name);

/// One record a combination. Floors read what the call reads, once; all inputs lie one after the
/// other. Statuses have to be ok: what is not is added to `failures`.
std::vector<harness::BenchmarkRecord> run_serving_benchmarks(
    const BenchmarkOptions& options, const std::vector<std::string>& backends,
    const std::vector<std::string>& operations, std::vector<std::string>& failures);

}  // namespace fairdraw::suites
