#include "harness/run/evidence/cause_texts.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace fairdraw::harness {
namespace {

struct Row {
  std::string_view name, sentence, change;
};

constexpr Row kRows[] = {
#define FAIRDRAW_CAUSE(name, sentence, change) {name, sentence, change},
#include "harness/run/evidence/cause_texts.inc"
};

constexpr std::string_view kDefinition = "definition of";

std::optional<Row> row_of(std::string_view name) {
  const auto* const found = std::ranges::find(kRows, name, &Row::name);
  return found == std::end(kRows) ? std::nullopt : std::optional(*found);
}

/// Returns the part of a name after the prefix `known` and the separator.
std::string_view rest_of(std::string_view name, std::string_view known) {
  name.remove_prefix(std::min(known.size(), name.size()));
  name.remove_prefix(std::min(name.find_first_not_of(": "), name.size()));
  return name;
}

/// Returns `sentence` with `detail` in place of %s; without a detail, the words that introduce it
/// are left out.
std::string filled(std::string_view sentence, std::string_view detail) {
  constexpr std::string_view kHole = "%s";
  const std::size_t hole = sentence.find(kHole);
  if (hole == sentence.npos) return std::string(sentence);
  if (!detail.empty()) {
    return std::string(sentence.substr(0, hole)) + std::string(detail) +
           std::string(sentence.substr(hole + kHole.size()));
  }
  return std::string(sentence.substr(0, sentence.find_last_not_of(" :(", hole - 1) + 1)) + ".";
}

}  // namespace

std::string_view cause_of(std::string_view bug) { return bug.substr(0, bug.find(':')); }

CauseText text_of_cause(std::string_view bug) {
  if (const auto row = row_of(bug)) return {filled(row->sentence, ""), std::string(row->change)};
  for (const std::string_view name : {cause_of(bug), kDefinition}) {
    const auto row = row_of(name);
    if (!row || !bug.starts_with(name)) continue;
    return {filled(row->sentence, rest_of(bug, name)), std::string(row->change)};
  }
  return {std::string(bug), ""};
}

const std::vector<EngineBug>& engine_bugs() {
  static const std::vector<EngineBug> all = {
#define FAIRDRAW_ENGINE_BUG(mutant, source, wrong, suspect) {mutant, source, wrong, suspect},
#include "harness/run/evidence/engine_bugs.inc"
  };
  return all;
}

std::vector<EngineBug> engine_bugs_like(std::string_view bug, std::size_t most) {
  std::vector<EngineBug> found;
  const auto add_where = [&](const auto& is_alike) {
    for (const EngineBug& one : engine_bugs()) {
      if (found.size() < most && is_alike(one)) found.push_back(one);
    }
  };
  add_where([bug](const EngineBug& one) { return one.suspect == bug; });
  if (found.empty()) {
    add_where([bug](const EngineBug& one) { return cause_of(one.suspect) == cause_of(bug); });
  }
  return found;
}

}  // namespace fairdraw::harness
