// Steps of beam search relative to their floor: `fairdraw bench --operation beam_4`.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {

/// True for names as beam_4 (a step from logits, four beams a request) and beam_4/logprobs.
bool is_beam_operation(const std::string& name);

/// A record for each operation and combination of the options: batch is requests, and rows are
/// `width` times as many. Throws harness::UsageError for a width out of its range.
std::vector<harness::BenchmarkRecord> beam_benchmarks(const BenchmarkOptions& options,
                                                      const std::vector<std::string>& operations);

}  // namespace fairdraw::suites
