// Options that verify and replay share, and the run itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suites/command/progress.h"
#include "suites/command/samplers.h"
#include "suites/gate/cases/plan.h"

namespace fairdraw::cli {

class App;

/// As given on the command line.
struct RunOptions {
  std::vector<std::string> samplers;
  std::string semantics;
  std::string against;
  std::vector<std::string> logits;
  std::string dtype;
  std::optional<std::string> seed, seed_from;
  harness::plugin::Options plugins;
  std::optional<double> case_seconds;
  std::optional<std::uint64_t> draws;
};

void add_run_options(App& app, RunOptions& options);

/// Resolves seed, samplers (default: all built-in ones) and files into a plan's options.
suites::PlanOptions plan_options(const RunOptions& options);

/// All that are named, the one to compare with too.
std::vector<std::string> samplers_of(const RunOptions& options);

/// "--shard I/N" into shard and shards. Throws harness::UsageError.
void parse_shard(const std::string& text, suites::PlanOptions& options);

/// Prints how a run ended: reports::to_terminal. `command` is how the program was called.
void print_outcome(const harness::RunRecord& record, const std::string& command,
                   Verbosity verbosity = {});

/// The semantics `given`, or the sampler's own where that is empty. Throws harness::UsageError.
reference::Semantics semantics_of(const std::string& given,
                                  const harness::SamplerDescription& sampler);

}  // namespace fairdraw::cli
