// Options that verify and replay share, and the run itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suites/command/options.h"
#include "suites/command/progress.h"
#include "suites/command/samplers.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

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
  std::optional<double> draws_scale;
  std::optional<std::uint64_t> night;
  std::optional<std::uint64_t> device;
};

void add_run_options(CLI::App& app, RunOptions& options);

/// Resolves seed, samplers (default: harness::distinct_sampler_names()) and files into a plan's
/// options.
suites::PlanOptions plan_options(const RunOptions& options);

/// What verify and merge ask of a run besides that nothing fails.
struct RequiredCoverage {
  std::vector<std::string> features;
  std::optional<double> max_skipped;

  bool empty() const { return features.empty() && !max_skipped; }
};

void add_required_coverage(CLI::App& app, RequiredCoverage& required);

/// Throws harness::UsageError for a feature that is none, given twice, or asked of a part of a run
/// (`part`: the option that says so; empty: of none).
void expect_coverage(const RequiredCoverage& required, const std::string& part = "");

/// Has the record ask for it.
void require(const RequiredCoverage& required, harness::RunRecord& record);

/// All that are named, the one to compare with too.
std::vector<std::string> samplers_of(const RunOptions& options);

/// "I/N" with 1 <= I <= N <= 10000. Throws harness::UsageError naming `option`.
harness::CasePart parse_part(const char* option, const std::string& text);

/// Makes GPU N of those that this process sees the only one, for itself and for the processes of
/// plugins: by CUDA_VISIBLE_DEVICES, so that every CUDA library follows. Before any of them is
/// asked. Throws harness::UsageError where CUDA_VISIBLE_DEVICES names fewer.
void use_device(std::uint64_t device);

/// Prints how a run ended: reports::to_terminal.
void print_outcome(const harness::RunRecord& record, Verbosity verbosity = {});

/// The semantics `given`, or the sampler's own where that is empty. Throws harness::UsageError.
reference::Semantics semantics_of(const std::string& given,
                                  const harness::SamplerDescription& sampler);

}  // namespace fairdraw::cli
