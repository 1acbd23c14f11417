#include "reference/semantics.h"

#include <algorithm>
#include <vector>

#include "reference/profiles.h"

namespace fairdraw::reference {

Semantics fairdraw_profile() {
  Semantics semantics;  // the default values are those of the specification
  semantics.name = "fairdraw";
  return semantics;
}

namespace {

const std::vector<Semantics>& profiles() {
  static const std::vector<Semantics> table = [] {
    std::vector<Semantics> all;
    for (const auto profile : kProfiles) all.push_back(profile());
    return all;
  }();
  return table;
}

}  // namespace

std::span<const std::string> profile_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Semantics& profile : profiles()) all.push_back(profile.name);
    return all;
  }();
  return names;
}

const Semantics* find_profile(std::string_view name) {
  const auto found = std::ranges::find(profiles(), name, &Semantics::name);
  return found == profiles().end() ? nullptr : &*found;
}

}  // namespace fairdraw::reference
