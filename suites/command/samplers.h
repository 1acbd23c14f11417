// Samplers by name: built in, made of a profile, or in a shared library.
#pragma once

#include <string>

#include "harness/plugin/process.h"
#include "suites/gate/cases/plan.h"

namespace fairdraw::cli {

class App;

/// --plugin-trusted, --plugin-timeout, --plugin-memory.
void add_plugin_options(App& app, harness::plugin::Options& options);

/// Makes the sampler that --sampler names. Throws harness::UsageError.
suites::SamplerMaker sampler_maker(const harness::plugin::Options& options);

/// Those of the options that are not the default, as words of a replay line with a leading blank.
std::string replay_text(const harness::plugin::Options& options);

}  // namespace fairdraw::cli
