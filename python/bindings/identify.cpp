// Finds the definitions that a Python callable or a built-in sampler follows, as fairdraw.identify.
#include "suites/gate/identify/identify.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "python/bindings/bindings.h"
#include "python/bindings/judged_callable.h"
#include "suites/command/identification.h"

namespace fairdraw::python {
namespace {

using suites::Identification;

// Returns the command's text and the content of its --json file.
std::pair<std::string, std::string> identify(const Named& given) {
  using Text = std::optional<std::string>;
  const JudgedCallable judged(given);
  const cli::SeedChoice seed =
      cli::choose_seed(given.as<Text>("seed"), given.as<Text>("seed_from"));
  const bool evidence = given.as<bool>("evidence");
  given.expect_all_read();
  std::shared_ptr<Callable> callable;
  const std::unique_ptr<harness::Sampler> sampler = sampler_of(judged, callable);
  std::atomic<bool> of_builtin = false;
  Interruptible interruptible(callable ? callable->cancelled : of_builtin);
  std::future<Identification> future =
      std::async(std::launch::async, [&] { return suites::identify(*sampler, seed.value); });
  interruptible.wait(future);
  const Identification found = future.get();
  interruptible.raise_what_came();
  const cli::Identified identified = {judged.name, &sampler->description(), &found, seed};
  return {cli::identification_text(identified, evidence), cli::identification_json(identified)};
}

}  // namespace

void bind_identify(nb::module_& module) { define(module, "identify", &identify); }

}  // namespace fairdraw::python
