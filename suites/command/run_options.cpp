#include "suites/command/run_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "harness/contract/sampler.h"
#include "harness/contract/semantics_text.h"
#include "harness/contract/usage_error.h"
#include "reports/report.h"
#include "suites/command/captured_files.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/seed.h"
#include "suites/gate/cases/features.h"
#include "suites/gate/run/shell_word.h"

namespace fairdraw::cli {
namespace {

// Smallest number of draws, so that checks that divide their draws have some draws for each part.
constexpr std::uint64_t kFewestDraws = 1000;
constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

}  // namespace

void add_run_options(CLI::App& app, RunOptions& options) {
  add_option(app, "--sampler", options.samplers, "NAME",
             "Samplers to judge, separated by commas: names of `fairdraw list samplers`, "
             "plugin:PATH for a sampler in a shared library, profile:NAME for a sampler made of a "
             "profile, mutant:NAME for a wrong sampler (`fairdraw mutants --list`) (default: the "
             "built-in samplers, each instruction set once)",
             {.commas = true});
  add_plugin_options(app, options.plugins);
  add_option(app, "--case-timeout", options.case_seconds, "N",
             "Seconds that all calls of a case may take together (default: for a plugin 600, and "
             "for each draw and row 4 ms and 1 us per token; no limit for other samplers)",
             {.min = 1e-3, .max = 1e9});
  add_option(app, "--draws", options.draws, "N",
             "Draws of each statistical case (default: the case's own number). Fewer draws find "
             "only larger discrepancies; a case that cannot find the discrepancy that it states is "
             "underpowered",
             {.min = kFewestDraws, .max = suites::kMaxCaseDraws});
  add_option(app, "--draws-scale", options.draws_scale, "X",
             "Factor on the case's own number of draws, for each statistical case; at most 2^34 "
             "draws in all, and 2^24 if a check keeps them",
             {.min = 1e-3, .max = 1e9});
  add_option(app, "--night", options.night, "N",
             "Number of this run in a sequence of runs, from 1. Run N spends 1/(N (N + 1)) of the "
             "error budget, so that the whole sequence spends the budget once",
             {.min = 1, .max = std::uint64_t{1} << 20});
  add_option(app, "--device", options.device, "N",
             "Use only GPU N: sets CUDA_VISIBLE_DEVICES for this process and for plugins",
             {.min = 0, .max = 1023});
  add_option(app, "--semantics", options.semantics, "PROFILE",
             "Profile to judge by, instead of the profile that the sampler declares (`fairdraw "
             "list profiles`)");
  add_option(app, "--against", options.against, "OTHER",
             "Compare each sampler with the sampler OTHER, instead of judging each: distributions, "
             "masks and tokens must be the same");
  add_option(app, "--logits", options.logits, "FILE.npy",
             "Captured logits, [rows, vocab] in a .npy of float32 or float16, or of uint16 with "
             "--dtype bfloat16; repeatable (default: the files of the suites)",
             {.repeated = true});
  add_option(app, "--dtype", options.dtype, "DTYPE",
             "Type of the captured logits: bfloat16, or the type that the file names");
  add_option(app, "--seed", options.seed, "N",
             "Seed of the run, 64 bits (default: made from the commit of the current "
             "directory's repository, so that a rerun repeats the run)");
  add_option(app, "--seed-from", options.seed_from, "TEXT",
             "Make the seed from a text, such as a date");
}

suites::PlanOptions plan_options(const RunOptions& options) {
  if (options.device) use_device(*options.device);
  suites::PlanOptions plan;
  plan.samplers = options.samplers;
  if (plan.samplers.empty()) plan.samplers = harness::distinct_sampler_names();
  plan.make_sampler = sampler_maker(options.plugins);
  plan.replay_options += replay_text(options.plugins);
  plan.case_seconds = options.case_seconds;
  if (options.case_seconds) {
    plan.replay_options += fmt::format(" --case-timeout {:g}", *options.case_seconds);
  }
  plan.draws = options.draws;
  if (options.draws && options.draws_scale) {
    throw harness::UsageError("--draws-scale: --draws is given too; allowed: one of them");
  }
  plan.draws_scale = options.draws_scale;
  plan.night = options.night;
  if (options.draws) plan.replay_options += fmt::format(" --draws {}", *options.draws);
  if (options.draws_scale) {
    plan.replay_options += fmt::format(" --draws-scale {}", *options.draws_scale);
  }
  if (options.night) plan.replay_options += fmt::format(" --night {}", *options.night);
  if (!options.semantics.empty()) plan.semantics = options.semantics;
  if (!options.against.empty()) plan.against = options.against;
  plan.captured = load_all_captured(options.logits, options.dtype);
  const SeedChoice seed = choose_seed(options.seed, options.seed_from);
  plan.seed = seed.value;
  plan.seed_source = seed.source;
  plan.commit = current_commit();
  for (const std::string& path : options.logits)
    plan.replay_options += " --logits " + suites::shell_word(path);
  if (!options.dtype.empty()) plan.replay_options += " --dtype " + options.dtype;
  return plan;
}

void add_required_coverage(CLI::App& app, RequiredCoverage& required) {
  add_option(app, "--require", required.features, "FEATURE",
             "Features that must be judged on every sampler, separated by commas (`fairdraw list "
             "features`); otherwise the exit code is 3",
             {.commas = true});
  add_option(app, "--max-skipped", required.max_skipped, "PERCENT",
             "Percentage of its cases that a sampler may skip; above this percentage the exit code "
             "is 3 (default: all cases but one)",
             {.min = 0.0, .max = 100.0});
}

void expect_coverage(const RequiredCoverage& required, const std::string& part) {
  suites::expect_features("--require", required.features);
  std::set<std::string> seen;
  for (const std::string& name : required.features) {
    if (seen.insert(name).second) continue;
    throw harness::UsageError(fmt::format("--require: '{}' is given twice", name));
  }
  if (part.empty() || required.empty()) return;
  throw harness::UsageError(
      fmt::format("{}: {} is given too, but a part of a run does not show which features the whole "
                  "run judges; give this option to merge",
                  required.features.empty() ? "--max-skipped" : "--require", part));
}

void require(const RequiredCoverage& required, harness::RunRecord& record) {
  if (required.empty()) return;
  record.required = required.features;
  record.max_skipped = required.max_skipped;
}

std::vector<std::string> samplers_of(const RunOptions& options) {
  std::vector<std::string> names = options.samplers;
  names.push_back(options.against);
  return names;
}

harness::CasePart parse_part(const char* option, const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto fail = [&] {
    throw harness::UsageError(
        fmt::format("{}: '{}' is not I/N with 1 <= I <= N <= 10000", option, text));
  };
  if (slash == std::string::npos) fail();
  std::uint64_t part = 0, parts = 0;
  try {
    part = parse_uint64(option, text.substr(0, slash));
    parts = parse_uint64(option, text.substr(slash + 1));
  } catch (const harness::UsageError&) {
    fail();
  }
  if (part < 1 || part > parts || parts > 10000) fail();
  return {static_cast<std::uint32_t>(part), static_cast<std::uint32_t>(parts)};
}

void use_device(std::uint64_t device) {
  const char* const given = std::getenv(kVisibleDevices);
  std::string name = std::to_string(device);
  if (given != nullptr) {
    std::vector<std::string> names;
    std::istringstream list(given);
    for (std::string one; std::getline(list, one, ',');) names.push_back(one);
    if (device >= names.size()) {
      throw harness::UsageError(fmt::format("--device: {} is out of range; {} names {} GPUs: '{}'",
                                            device, kVisibleDevices, names.size(), given));
    }
    name = names[device];
  }
  ::setenv(kVisibleDevices, name.c_str(), 1);
}

void print_outcome(const harness::RunRecord& record, Verbosity verbosity) {
  reports::TerminalStyle style;
  style.command = suites::shell_word(program_command());
  if (verbosity.verbose) style.listed = 0;
  style.quiet = verbosity.quiet;
  style.colours = has_colours(STDOUT_FILENO);
  write_safe_out(reports::to_terminal(record, style));
}

reference::Semantics semantics_of(const std::string& given,
                                  const harness::SamplerDescription& sampler) {
  return harness::semantics_from_text(given.empty() ? sampler.semantics : given);
}

}  // namespace fairdraw::cli
