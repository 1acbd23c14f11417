// Options that `verify` and `replay` share, and functions that a run needs.
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

/// Returns the options of a plan from those of the command line; seed, samplers (default:
/// harness::distinct_sampler_names()) and files are resolved.
suites::PlanOptions plan_options(const RunOptions& options);

/// The coverage that `verify` and `merge` require of a run, in addition to the absence of failures.
struct RequiredCoverage {
  std::vector<std::string> features;
  std::optional<double> max_skipped;

  bool empty() const { return features.empty() && !max_skipped; }
};

void add_required_coverage(CLI::App& app, RequiredCoverage& required);

/// Throws harness::UsageError for an unknown or repeated feature. Also throws if coverage is
/// required of a part of a run; `part` is the option that selects the part, or empty.
void expect_coverage(const RequiredCoverage& required, const std::string& part = "");

/// Adds the required coverage to a record.
void require(const RequiredCoverage& required, harness::RunRecord& record);

/// Returns all samplers that the options name, with the sampler for comparison.
std::vector<std::string> samplers_of(const RunOptions& options);

/// Parses "I/N" with 1 <= I <= N <= 10000. Parses "I/N". Throws harness::UsageError that names
/// `option` for other texts.
harness::CasePart parse_part(const char* option, const std::string& text);

/// Makes visible GPU number `device` the only GPU for this process and for the processes of
/// plugins. The function sets CUDA_VISIBLE_DEVICES, which every CUDA library obeys. Precondition:
/// no CUDA library has been called yet. Throws harness::UsageError if CUDA_VISIBLE_DEVICES names
/// too few GPUs.
void use_device(std::uint64_t device);

/// Prints the outcome of a run with reports::to_terminal.
void print_outcome(const harness::RunRecord& record, Verbosity verbosity = {});

/// Returns the semantics that `given` names, or the sampler's own semantics if `given` is empty.
/// Throws harness::UsageError.
reference::Semantics semantics_of(const std::string& given,
                                  const harness::SamplerDescription& sampler);

}  // namespace fairdraw::cli
