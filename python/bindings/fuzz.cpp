// The search for calls that break a Python callable, or a built-in sampler: fairdraw.fuzz.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "harness/contract/semantics_text.h"
#include "python/bindings/bindings.h"
#include "python/bindings/judged_callable.h"
#include "python/bindings/python_sampler.h"
#include "suites/command/samplers.h"
#include "suites/command/seed.h"
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
    findings.append(one);
  }
  nb::dict all;
  all["findings"] = findings;
  all["cases"] = result.statistics.cases;
  all["judged"] = result.statistics.judged;
  all["skipped"] = result.statistics.skipped;
  all["unconfirmed"] = result.statistics.unconfirmed;
  all["seconds"] = result.statistics.seconds;
  all["seed"] = seed;
  all["seed_source"] = seed_source;
  return all;
}

nb::dict fuzz(const JudgedCallable& judged, FuzzOptions options,
              const std::optional<std::string>& seed, const std::optional<std::string>& seed_from) {
  const cli::SeedChoice chosen = cli::choose_seed(seed, seed_from);
  options.seed = chosen.value;
  std::shared_ptr<Callable> callable;
  std::unique_ptr<harness::Sampler> sampler;
  std::atomic<bool> never = false;
  std::atomic<bool>* cancelled = &never;
  if (judged.is_builtin()) {
    sampler = cli::sampler_maker({})(judged.name);
  } else {
    callable = callable_of(judged);
    cancelled = &callable->cancelled;
    sampler = std::make_unique<PythonSampler>(callable, PythonSampler::Keeps::nothing);
  }
  options.stop = [cancelled] { return cancelled->load(); };
  const reference::Semantics semantics = harness::semantics_from_text(judged.semantics);
  Interruptible interruptible(*cancelled);
  std::future<FuzzResult> future = std::async(
      std::launch::async, [&] { return suites::fuzz::fuzz(*sampler, semantics, options); });
  interruptible.wait(future);
  const FuzzResult result = future.get();
  interruptible.raise_what_came();
  return as_dict(result, chosen.value, chosen.source);
}

}  // namespace

void bind_fuzz(nb::module_& module) {
  using Names = std::vector<std::string>;
  using Text = std::optional<std::string>;
  module.def(
      "fuzz",
      [](nb::object function, const std::string& name, const std::string& version,
         const std::string& semantics, const std::string& arrays, const Names& able,
         const Names& lacks, const Names& random, double seconds, std::uint64_t cases,
         std::uint64_t first_case, const std::string& property, bool statistical, bool keep_going,
         const Text& seed, const Text& seed_from) {
        FuzzOptions options;
        options.seconds = seconds;
        options.cases = cases;
        options.first_case = first_case;
        options.property_glob = property;
        options.statistical = statistical;
        options.keep_going = keep_going;
        return fuzz({std::move(function), nb::none(), nb::dict(), false, nb::dict(), name, version,
                     semantics, arrays, able, lacks, random},
                    std::move(options), seed, seed_from);
      },
      nb::arg("function"), nb::arg("name"), nb::arg("version"), nb::arg("semantics"),
      nb::arg("arrays"), nb::arg("abilities"), nb::arg("lacks"), nb::arg("randomness"),
      nb::arg("seconds"), nb::arg("cases"), nb::arg("first_case"), nb::arg("property"),
      nb::arg("statistical"), nb::arg("keep_going"), nb::arg("seed").none(),
      nb::arg("seed_from").none());
}

}  // namespace fairdraw::python
