#include "suites/gate/fuzz/properties.h"

#include <exception>
#include <iterator>
#include <utility>

#include "harness/contract/error_text.h"
#include "harness/contract/usage_error.h"
#include "harness/run/calls/kept_float_environment.h"
#include "suites/gate/fuzz/property_lists.h"

namespace fairdraw::suites::fuzz {

Judgement holds() { return {}; }
Judgement fails(std::string message) { return {Outcome::fails, std::move(message)}; }
Judgement not_applicable(std::string why) { return {Outcome::not_applicable, std::move(why)}; }

const std::vector<Property>& properties() {
  static const std::vector<Property> all = [] {
    std::vector<Property> list;
    for (auto* const part :
         {&oracle_properties, &relation_properties, &processing_properties, &probability_properties,
          &chain_properties, &speculation_properties, &distribution_properties}) {
      std::vector<Property> some = part();
      list.insert(list.end(), std::make_move_iterator(some.begin()),
                  std::make_move_iterator(some.end()));
    }
    return list;
  }();
  return all;
}

const Property& find_property(const std::string& name) {
  std::vector<std::string> names;
  for (const Property& property : properties()) {
    if (property.name == name) return property;
    names.push_back(property.name);
  }
  throw harness::UsageError(harness::unknown_name_message("property", name, names));
}

Judgement judge(const Property& property, Subject& subject) {
  if (property.kind != subject.fuzz_case().kind) return not_applicable("is for other cases");
  if (std::string lacks = missing_ability(subject.description(), subject.fuzz_case());
      !lacks.empty()) {
    return not_applicable(std::move(lacks));
  }
  const harness::KeptFloatEnvironment scope;
  try {
    const bool needs_answer = property.kind == CaseKind::batch && property.name != kCallRuns;
    if (needs_answer && !subject.response().ran()) return not_applicable("the call does not run");
    return property.judge(subject);
  } catch (const harness::UsageError&) {
    throw;  // the error is the caller's, not the sampler's
  } catch (const MissingAbility& missing) {
    return not_applicable(missing.what());
  } catch (const std::exception& error) {
    return fails("threw: " + harness::error_text(error));
  }
}

}  // namespace fairdraw::suites::fuzz
