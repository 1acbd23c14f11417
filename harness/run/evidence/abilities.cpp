#include "harness/run/evidence/abilities.h"

#include <algorithm>
#include <stdexcept>

namespace fairdraw::harness {
namespace {

enum class DeclaredIn {
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
  DeclaredIn place;
  std::string_view reason;
};

constexpr Row kRows[] = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason) \
  {#member, #bit, DeclaredIn::place, reason},
#define FAIRDRAW_PROMISE(member, bit, reason) \
  {"randomness." #member, #bit, DeclaredIn::randomness, reason},
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason) \
  {#member, #bit, DeclaredIn::declinable, reason},
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
  return row != nullptr && row->place == DeclaredIn::claims;
}

std::string declaration_of(std::string_view ability, std::string_view sampler) {
  const Row* const row = row_of(ability);
  std::string name(ability);
  if (row == nullptr) return name;
  const bool is_plugin = sampler.starts_with("plugin:");
  if (row->place == DeclaredIn::declinable) {
    return is_plugin ? "no " + std::string(row->bit) : name + " (not in `lacks`)";
  }
  if (is_plugin) return std::string(row->bit);
  switch (row->place) {
    case DeclaredIn::running_batch:
      return name + " (a running_batch has it)";
    case DeclaredIn::operations:
      return name + " (verify_operations judges it)";
    case DeclaredIn::drafts:
      return name + " (verify_speculation judges it)";
    case DeclaredIn::plugins:
      return name + " (plugins alone can)";
    case DeclaredIn::abilities:
    case DeclaredIn::filters:
    case DeclaredIn::randomness:
    case DeclaredIn::claims:
    case DeclaredIn::declinable:
      break;
  }
  return name;
}

}  // namespace fairdraw::harness
