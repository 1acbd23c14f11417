// A run, planned: which cases, under which samplers, with which seeds and which error budget.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/runner.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// Makes a sampler by name; throws harness::UsageError for an unknown one.
using SamplerMaker = std::function<std::unique_ptr<harness::Sampler>(const std::string&)>;

struct PlanOptions {
  Suite suite = Suite::gate;
  std::vector<std::string> samplers;
  SamplerMaker make_sampler;
  std::optional<std::string> semantics;  ///< instead of each sampler's own
  std::optional<std::string> against;    ///< compare each sampler with this one, instead of judging
  std::vector<std::shared_ptr<const harness::CapturedLogits>> captured;
  std::uint64_t seed = 0;
  std::string seed_source;
  std::string commit;  ///< of the repository that the run is made in; empty: in none
  std::uint32_t shard = 1, shards = 1;   ///< job i belongs to shard i % shards + 1
  std::optional<std::string> case_glob;  ///< '*' and '?' match any characters, '/' too
  std::uint64_t statistical_cases = 0;   ///< 0: as many as the run has, at least kStatisticalCases
  std::string replay_options;            ///< added to each replay line, with a leading blank
};

struct Plan {
  std::vector<harness::Job> jobs;  ///< of this shard, in the order of the table
  std::vector<harness::SamplerRecord> samplers;
  std::uint64_t statistical_cases = 0;  ///< that the error budget is shared out to
};

/// Throws harness::UsageError: an unknown sampler or profile, a shard out of range, a --case
/// without wildcards that is no case's id.
Plan make_plan(const PlanOptions& options);

/// Runs the plan on `threads` threads, and books the error budget.
harness::RunRecord run_plan(const Plan& plan, const PlanOptions& options, unsigned threads,
                            const harness::Progress& progress);

}  // namespace fairdraw::suites
