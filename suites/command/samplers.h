// Samplers by name: built in, made of a profile, or in a shared library.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/plugin/process.h"
#include "suites/command/options.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

/// --plugin-trusted, --plugin-timeout, --plugin-memory.
void add_plugin_options(CLI::App& app, harness::plugin::Options& options);

/// The work of a verb. Where it loads plugins of `samplers` into this process, it is watched: an
/// exit or a crash is an error that names them, and never the end of the command.
int with_plugins(const harness::plugin::Options& options, const std::vector<std::string>& samplers,
                 const std::function<int()>& work);

/// Says which samplers `mutant:NAME` names from now on: a program may have none.
void use_mutants(suites::SamplerMaker maker);

/// Makes the sampler that --sampler names. Throws harness::UsageError.
suites::SamplerMaker sampler_maker(const harness::plugin::Options& options);

/// Those of the options that are not the default, as words of a replay line with a leading blank.
std::string replay_text(const harness::plugin::Options& options);

}  // namespace fairdraw::cli
