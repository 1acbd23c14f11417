// Functions that judge a sampler by some cases of a suite.
#pragma once

#include <cstdint>
#include <string>

#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

/// Judges the sampler that `make` makes, under the name `name`, by the cases whose ids match.
template <class Make>
harness::RunRecord judged(const std::string& name, const Make& make, const std::string& cases,
                          std::uint64_t seed, Suite suite = Suite::smoke) {
  PlanOptions options;
  options.suite = suite;
  options.samplers = {name};
  options.make_sampler = [&make](const std::string&) { return make(); };
  options.case_glob = cases;
  options.seed = seed;
  return run_plan(make_plan(options), options, 2, {});
}

/// Returns the first case in the result of judged().
template <class Make>
harness::CaseRecord judged_case(const std::string& name, const Make& make, const std::string& cases,
                                std::uint64_t seed) {
  return judged(name, make, cases, seed).cases.front();
}

}  // namespace fairdraw::suites
