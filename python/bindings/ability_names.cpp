#include "python/bindings/ability_names.h"

namespace fairdraw::python {
namespace {

using harness::SamplerDescription;

enum class DeclaredIn {
  abilities,
  filters,
  running_batch,
  operations,
  drafts,
  plugins,
  claims,
  declinable
};

struct Row {
  const char* name;
  DeclaredIn place;
  Ability member;
};

constexpr Row kAbilities[] = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason) \
  {#member, DeclaredIn::place, &SamplerDescription::member},
#define FAIRDRAW_PROMISE(member, bit, reason)
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason) \
  {#member, DeclaredIn::declinable, &SamplerDescription::member},
#include "harness/run/evidence/abilities.inc"
};

std::map<std::string, Ability> declared_in(std::initializer_list<DeclaredIn> places) {
  std::map<std::string, Ability> all;
  for (const Row& row : kAbilities) {
    for (const DeclaredIn place : places) {
      if (row.place == place) all.emplace(row.name, row.member);
    }
  }
  return all;
}

}  // namespace

const std::map<std::string, Ability>& abilities() {
  static const auto all = declared_in({DeclaredIn::abilities, DeclaredIn::claims});
  return all;
}

const std::map<std::string, Ability>& filters() {
  static const auto all = declared_in({DeclaredIn::filters});
  return all;
}

const std::map<std::string, Ability>& declinable() {
  static const auto all = declared_in({DeclaredIn::declinable});
  return all;
}

const std::map<std::string, Promise>& promises() {
  static const auto all = [] {
    std::map<std::string, Promise> of_batches = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason)
#define FAIRDRAW_PROMISE(member, bit, reason) {#member, &harness::RandomnessContract::member},
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason)
#include "harness/run/evidence/abilities.inc"
    };
    of_batches.erase("purposes");  // callables receive batches, never chains
    return of_batches;
  }();
  return all;
}

}  // namespace fairdraw::python
