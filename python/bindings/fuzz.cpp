// Searches for calls that break a Python callable or a built-in sampler, as fairdraw.fuzz.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "harness/contract/semantics_text.h"
#include "python/bindings/bindings.h"
#include "python/bindings/judged_callable.h"
#include "suites/command/seed.h"
#include "suites/gate/fuzz/call_text.h"
#include "suites/gate/fuzz/fuzzer.h"

namespace fairdraw::python {
namespace {

namespace nb = nanobind;
using suites::fuzz::FuzzOptions;
using suites::fuzz::FuzzResult;

nb::dict as_dict(const FuzzResult& result, std::uint64_t seed, const std::string& seed_source) {
  nb::list findings;
  for (const suites::fuzz::Finding& finding : result.findings) {
    nb::dict one;
    one["property"] = finding.property;
    one["message"] = finding.message;
    one["case"] = finding.case_number;
    one["original"] = describe(finding.original);
    one["shrunk"] = describe(finding.shrunk);
    one["python_call"] = python_call(finding.shrunk);
    one["c_call"] = c_call(finding.shrunk);
    findings.append(one);
  }
  nb::dict all;
  all["findings"] = findings;
  all["cases"] = result.statistics.cases;
  all["judged"] = result.statistics.judged;
  all["skipped"] = result.statistics.skipped;
  all["unconfirmed"] = result.statistics.unconfirmed;
  all["seconds"] = result.statistics.seconds;
  all["incomplete"] = result.statistics.stopped ? "interrupted by Ctrl-C" : "";
  all["seed"] = seed;
  all["seed_source"] = seed_source;
  return all;
}

nb::dict fuzz(const Named& given) {
  using Text = std::optional<std::string>;
  const JudgedCallable judged(given);
  const cli::SeedChoice chosen =
      cli::choose_seed(given.as<Text>("seed"), given.as<Text>("seed_from"));
  FuzzOptions options;
  options.seconds = given.as<double>("seconds");
  options.cases = given.as<std::uint64_t>("cases");
  options.first_case = given.as<std::uint64_t>("first_case");
  options.property_glob = given.as<std::string>("property");
  options.statistical = given.as<bool>("statistical");
  options.keep_going = given.as<bool>("keep_going");
  options.seed = chosen.value;
  given.expect_all_read();
  std::shared_ptr<Callable> callable;
  const std::unique_ptr<harness::Sampler> sampler = sampler_of(judged, callable);
  std::atomic<bool> of_builtin = false;
  std::atomic<bool>& cancelled = callable ? callable->cancelled : of_builtin;
  options.stop = [&cancelled] { return cancelled.load(); };
  const reference::Semantics semantics = harness::semantics_from_text(judged.semantics);
  Interruptible interruptible(cancelled);
  std::future<FuzzResult> future = std::async(
      std::launch::async, [&] { return suites::fuzz::fuzz(*sampler, semantics, options); });
  interruptible.wait(future);
  const FuzzResult result = future.get();
  interruptible.raise_what_came_but_interrupts();
  return as_dict(result, chosen.value, chosen.source);
}

}  // namespace

void bind_fuzz(nb::module_& module) { define(module, "fuzz", &fuzz); }

}  // namespace fairdraw::python
