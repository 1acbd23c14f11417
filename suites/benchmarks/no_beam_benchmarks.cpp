// Benchmarks of beams in a build without serving: no name is one of theirs.
#include "suites/benchmarks/beam_benchmarks.h"

namespace fairdraw::suites {

bool is_beam_operation(const std::string&) { return false; }

std::vector<harness::BenchmarkRecord> beam_benchmarks(const BenchmarkOptions&,
                                                      const std::vector<std::string>&) {
  return {};
}

}  // namespace fairdraw::suites
