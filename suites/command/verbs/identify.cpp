// identify: finds the definitions that a sampler follows, and gives the evidence.
#include "suites/gate/identify/identify.h"

#include <memory>
#include <optional>

#include "suites/command/identification.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/output_file.h"
#include "suites/command/run_options.h"
#include "suites/command/samplers.h"
#include "suites/command/seed.h"
#include "suites/command/verbs/verbs.h"

namespace fairdraw::cli {
namespace {

struct IdentifyOptions {
  std::string sampler;
  std::string json;
  std::optional<std::string> seed;
  bool evidence = false;
  harness::plugin::Options plugins;
};

int identify(const IdentifyOptions& options) {
  const OutputFile file("--json", options.json);
  const auto sampler = sampler_maker(options.plugins)(options.sampler);
  const SeedChoice seed = choose_seed(options.seed, std::nullopt);
  const suites::Identification found = suites::identify(*sampler, seed.value);
  const Identified identified = {options.sampler, &sampler->description(), &found, seed};
  print("{}", identification_text(identified, options.evidence));
  if (file.wanted()) file.write(identification_json(identified));
  return found.unanswered.empty() && found.broke == 0 ? 0 : kExitUndecided;
}

}  // namespace

Verb add_identify(CLI::App& app) {
  const auto options = std::make_shared<IdentifyOptions>();
  add_option(app, "--sampler", options->sampler, "NAME",
             "Sampler to probe: a name of `fairdraw list samplers`, plugin:PATH for a sampler in a "
             "shared library, profile:NAME for a sampler made of a profile",
             {.required = true});
  add_plugin_options(app, options->plugins);
  add_json(app, options->json, "Write every question and every answer of the sampler");
  add_flag(app, "--evidence", options->evidence,
           "Show every question and every answer of the sampler");
  add_option(app, "--seed", options->seed, "N",
             "Seed of the draws, 64 bits (default: made from the commit, as `verify` does)");
  return [options] {
    return with_plugins(options->plugins, {options->sampler},
                        [options] { return identify(*options); });
  };
}

}  // namespace fairdraw::cli
