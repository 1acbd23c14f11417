#include "python/bindings/ability_names.h"

namespace fairdraw::python {
namespace {

using harness::SamplerDescription;

enum class Place {
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
  Place place;
  Ability member;
};

constexpr Row kAbilities[] = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason) \
  {#member, Place::place, &SamplerDescription::member},
#define FAIRDRAW_PROMISE(member, bit, reason)
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason) \
  {#member, Place::declinable, &SamplerDescription::member},
#include "harness/run/evidence/abilities.inc"
};

std::map<std::string, Ability> declared_in(std::initializer_list<Place> places) {
  std::map<std::string, Ability> all;
  for (const Row& row : kAbilities) {
    for (const Place place : places) {
      if (row.place == place) all.emplace(row.name, row.member);
    }
  }
  return all;
}

}  // namespace

const std::map<std::string, Ability>& abilities() {
  static const auto all = declared_in({Place::abilities, Place::claims});
  return all;
}

const std::map<std::string, Ability>& filters() {
  static const auto all = declared_in({Place::filters});
  return all;
}

const std::map<std::string, Ability>& declinable() {
  static const auto all = declared_in({Place::declinable});
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
