// Abilities and promises of a sampler, by the names of harness/contract/sampler.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"

namespace fairdraw::python {

using Promise = bool harness::RandomnessContract::*;
using Ability = bool harness::SamplerDescription::*;

/// Abilities that a callable can declare. A callable gets batches: it has no abilities of chains,
/// and none of processing, which only running batches have.
const std::map<std::string, Ability>& abilities();
/// Abilities that every sampler has unless it declares that it lacks them.
const std::map<std::string, Ability>& filters();
/// Promises that every sampler makes unless it declines them.
const std::map<std::string, Ability>& declinable();
const std::map<std::string, Promise>& promises();

/// Returns the names that a map of abilities or promises has as keys.
template <class Members>
std::vector<std::string> names_of(const Members& members) {
  std::vector<std::string> names;
  for (const auto& entry : members) names.push_back(entry.first);
  return names;
}

}  // namespace fairdraw::python
