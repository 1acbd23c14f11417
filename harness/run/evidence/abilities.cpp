#include "harness/run/evidence/abilities.h"

#include <algorithm>
#include <stdexcept>

namespace fairdraw::harness {
namespace {

enum class Place {
  abilities,
  filters,
  randomness,
  running_batch,
  operations,
  drafts,
  plugins,
  claims,
  declinable
};

struct Row {
  std::string_view name, bit;
  Place place;
  std::string_view reason;
};

constexpr Row kRows[] = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason) \
  {#member, #bit, Place::place, reason},
#define FAIRDRAW_PROMISE(member, bit, reason) \
  {"randomness." #member, #bit, Place::randomness, reason},
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason) \
  {#member, #bit, Place::declinable, reason},
#include "harness/run/evidence/abilities.inc"
};

const Row* row_of(std::string_view ability) {
  const Row* const found = std::ranges::find(kRows, ability, &Row::name);
  return found == std::end(kRows) ? nullptr : found;
}

}  // namespace

Lack lack_of(std::string_view ability) {
  const Row* const row = row_of(ability);
  if (row == nullptr) throw std::logic_error("no ability: " + std::string(ability));
  return {std::string(row->reason), std::string(row->name)};
}

bool is_claim(std::string_view ability) {
  const Row* const row = row_of(ability);
  return row != nullptr && row->place == Place::claims;
}

std::string declaration_of(std::string_view ability, std::string_view sampler) {
  const Row* const row = row_of(ability);
  std::string name(ability);
  if (row == nullptr) return name;
  const bool is_plugin = sampler.starts_with("plugin:");
  if (row->place == Place::declinable) {
    return is_plugin ? "no " + std::string(row->bit) : name + " (not in `lacks`)";
  }
  if (is_plugin) return std::string(row->bit);
  switch (row->place) {
    case Place::running_batch:
      return name + " (a running_batch has it)";
    case Place::operations:
      return name + " (verify_operations judges it)";
    case Place::drafts:
      return name + " (verify_speculation judges it)";
    case Place::plugins:
      return name + " (plugins alone can)";
    case Place::abilities:
    case Place::filters:
    case Place::randomness:
    case Place::claims:
    case Place::declinable:
      break;
  }
  return name;
}

}  // namespace fairdraw::harness
