#include "suites/command/samplers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/plugin/monitor.h"
#include "harness/plugin/plugin_sampler.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/gate/identify/profile_sampler.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::cli {
namespace {

suites::SamplerMaker& mutant_maker() {
  static suites::SamplerMaker maker;
  return maker;
}

std::unique_ptr<harness::Sampler> make_mutant(const std::string& name) {
  if (!mutant_maker()) {
    throw harness::UsageError(fmt::format(
        "'{}': this program has no wrong samplers; `./fairdraw build` makes a program that has",
        name));
  }
  return mutant_maker()(name.substr(suites::kMutantPrefix.size()));
}

}  // namespace

using harness::plugin::Loader;
using harness::plugin::Options;

void add_plugin_options(CLI::App& app, Options& options) {
  add_flag(app, "--plugin-trusted", options.trusted,
           "Load plugins into this process. Calls are faster, but a plugin that crashes or "
           "corrupts memory ends the run");
  add_option(app, "--plugin-timeout", options.seconds, "N",
             "Seconds that each call of a plugin may take", {.min = 1e-3, .max = 1e6});
  add_option(app, "--plugin-memory", options.mebibytes, "MIB",
             "MiB that a plugin's process may take besides the arrays of a call; 0: no limit",
             {.min = 0, .max = std::uint64_t{1} << 24});
}

int with_plugins(const Options& options, const std::vector<std::string>& samplers,
                 const std::function<int()>& work) {
  std::vector<std::string> plugins;
  for (const std::string& name : samplers) {
    if (harness::plugin::is_plugin(name)) plugins.push_back(name);
  }
  if (!options.trusted || plugins.empty()) return work();
  // The worker process itself checks its output, because an error of printing would be lost when
  // the process ends.
  return harness::plugin::monitored(fmt::format("{}", fmt::join(plugins, ", ")),
                                    [&work] { return end_of_output(work()); });
}

void use_mutants(suites::SamplerMaker maker) { mutant_maker() = std::move(maker); }

suites::SamplerMaker sampler_maker(const Options& options) {
  return [loader = std::make_shared<Loader>(options)](const std::string& name) {
    if (name.starts_with(suites::kMutantPrefix)) return make_mutant(name);
    return harness::plugin::is_plugin(name) ? loader->make(name) : suites::make_named_sampler(name);
  };
}

std::string replay_text(const Options& options) {
  const Options usual;
  std::string text;
  if (options.trusted) text += " --plugin-trusted";
  if (options.seconds != usual.seconds)
    text += fmt::format(" --plugin-timeout {:g}", options.seconds);
  if (options.mebibytes != usual.mebibytes) {
    text += fmt::format(" --plugin-memory {}", options.mebibytes);
  }
  return text;
}

}  // namespace fairdraw::cli
