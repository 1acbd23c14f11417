#include "python/bindings/judged_callable.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "harness/contract/usage_error.h"
#include "harness/inputs/processing_steps.h"
#include "python/bindings/ability_names.h"
#include "python/bindings/batch_view.h"
#include "python/bindings/python_sampler.h"
#include "suites/command/samplers.h"

namespace fairdraw::python {
namespace {

namespace nb = nanobind;
using harness::SamplerDescription;
using harness::UsageError;

template <class Members, class Target>
void set_named(const char* what, const Members& members, const std::vector<std::string>& names,
               Target& target, bool value = true) {
  for (const std::string& name : names) {
    const auto found = members.find(name);
    if (found == members.end()) {
      throw UsageError(harness::unknown_name_message(what, name, names_of(members)));
    }
    target.*(found->second) = value;
  }
}

// Precondition: the caller has checked the names in `drafts`.
void declare_drafts(const nb::dict& drafts, SamplerDescription& description) {
  const auto text = [&drafts](const char* name) { return nb::cast<std::string>(drafts[name]); };
  const auto has = [&drafts](const char* kind) {
    return nb::cast<bool>(drafts["drafts"].attr("__contains__")(kind));
  };
  description.samples = false;
  description.chains = text("target") == "probs";
  description.speculation = !description.chains;
  description.drafts = {has("unknown"), has("probs"), has("logits"),
                        nb::cast<bool>(drafts["faults"]), nb::cast<bool>(drafts["counts_all"])};
  if (drafts["acceptance"].is_none()) return;
  description.acceptance_rule = text("acceptance") == "block" ? harness::AcceptanceRule::block
                                                              : harness::AcceptanceRule::token_wise;
}

}  // namespace

JudgedCallable::JudgedCallable(const Named& given)
    : function(nb::borrow(given["function"])),
      name(given.as<std::string>("name")),
      version(given.as<std::string>("version")),
      semantics(given.as<std::string>("semantics")),
      arrays(given.as<std::string>("arrays")),
      abilities(given.as<std::vector<std::string>>("abilities")),
      lacks(given.as<std::vector<std::string>>("lacks")),
      randomness(given.as<std::vector<std::string>>("randomness")) {}

std::shared_ptr<Callable> callable_of(const JudgedCallable& judged) {
  SamplerDescription description;
  description.name = judged.name;
  description.version = judged.version;
  description.semantics = judged.semantics;
  set_named("ability", abilities(), judged.abilities, description);
  std::map<std::string, Ability> has_unless = filters();
  has_unless.insert(declinable().begin(), declinable().end());
  std::vector<std::string> others;
  for (const std::string& name : judged.lacks) {
    const bool is_step = std::ranges::any_of(
        harness::processing_steps(),
        [&name](const harness::ProcessingStep& step) { return step.name == name; });
    (is_step ? description.lacked_steps : others).push_back(name);
  }
  set_named("filter, step or promise", has_unless, others, description, false);
  if (description.exact_integer && !description.bad_rows) {
    throw UsageError(
        "lacks: 'bad_rows' is among them; allowed with the ability 'exact_integer': filters and "
        "'flush_modes', because the specification says what bad rows give");
  }
  description.randomness = {false, false, false, false, false, false};
  set_named("promise of randomness", promises(), judged.randomness, description.randomness);
  description.processing_buffers = false;
  auto callable = std::make_shared<Callable>(judged.function, judged.running_batch,
                                             arrays_from_name(judged.arrays));
  callable->kept_description = description;
  callable->kept_description.keeps_state = !judged.running_batch.is_none();
  callable->description = std::move(description);
  // With a running batch, it gets all processing.
  if (!judged.running_batch.is_none()) callable->description.processing = false;
  for (const auto& [name, function] : judged.operations) {
    const harness::OperationKind kind = harness::operation_from_name(nb::cast<std::string>(name));
    harness::declare_operation(callable->description, kind);
    callable->operations[kind] = nb::borrow(function);
  }
  callable->description.samples = judged.operations.empty();
  callable->description.operations_keep_dtype = judged.keep_dtype;
  if (judged.verifies_drafts()) {
    declare_drafts(judged.drafts, callable->description);
    callable->verifier = nb::borrow(judged.drafts["verifier"]);
  }
  return callable;
}

std::unique_ptr<harness::Sampler> sampler_of(const JudgedCallable& judged,
                                             std::shared_ptr<Callable>& callable) {
  if (judged.is_builtin()) return cli::sampler_maker({})(judged.name);
  callable = callable_of(judged);
  return std::make_unique<PythonSampler>(callable, PythonSampler::Keeps::nothing);
}

}  // namespace fairdraw::python
