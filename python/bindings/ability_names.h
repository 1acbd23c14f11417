// What is said of a sampler in Python, by the names of harness/contract/sampler.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"

namespace fairdraw::python {

using Promise = bool harness::RandomnessContract::*;
using Ability = bool harness::SamplerDescription::*;

/// A callable gets no chains: it is called with batches. These have no processing, which is for
/// running batches alone.
const std::map<std::string, Ability>& abilities();
/// What every sampler has unless it says otherwise.
const std::map<std::string, Ability>& filters();
/// Promises that every sampler makes unless it says otherwise.
const std::map<std::string, Ability>& declinable();
const std::map<std::string, Promise>& promises();

/// The names of one of them.
template <class Members>
std::vector<std::string> names_of(const Members& members) {
  std::vector<std::string> names;
  for (const auto& entry : members) names.push_back(entry.first);
  return names;
}

}  // namespace fairdraw::python
