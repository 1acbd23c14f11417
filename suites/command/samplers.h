// Makes samplers by name: samplers that are built in, made from a profile, or loaded from a shared
// library.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/plugin/process.h"
#include "suites/command/options.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// Adds the options --plugin-trusted, --plugin-timeout and --plugin-memory.
void add_plugin_options(CLI::App& app, harness::plugin::Options& options);

/// Runs the function that does a verb's work. If plugins of `samplers` are loaded into this
/// process, the work is monitored: an exit or a crash becomes an error that names the plugins, and
/// does not end the command.
int with_plugins(const harness::plugin::Options& options, const std::vector<std::string>& samplers,
                 const std::function<int()>& work);

/// Sets the function that makes `mutant:NAME` samplers; a program need not have one.
void use_mutants(suites::SamplerMaker maker);

/// Returns a function that makes the samplers that --sampler names. The returned function throws
/// harness::UsageError for an unknown name.
suites::SamplerMaker sampler_maker(const harness::plugin::Options& options);

/// Returns the options that differ from their defaults as words of a replay line, with a leading
/// blank.
std::string replay_text(const harness::plugin::Options& options);

}  // namespace fairdraw::cli
