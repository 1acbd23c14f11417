#include "suites/gate/cases/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/contract/usage_error.h"
#include "suites/gate/cases/row_operation_cases.h"

namespace fairdraw::suites {
namespace {

using harness::Feature;
using harness::SamplerDescription;

struct Ability {
  std::string_view name;
  bool SamplerDescription::*member;
};

constexpr Ability kAbilities[] = {
#define FAIRDRAW_ABILITY(member, bit, short_name, place, reason) \
  {#member, &SamplerDescription::member},
#define FAIRDRAW_PROMISE(member, bit, reason)
#define FAIRDRAW_DECLINABLE(member, bit, short_name, reason)
#include "harness/run/evidence/abilities.inc"
};

// Returns the shape of the case's requests, without values of rows, because no ability depends on
// values.
harness::Request shape_of(const Case& entry) {
  harness::Request shape;
  shape.dtype = entry.input.dtype;
  shape.vocab = entry.input.vocab;
  if (is_row_operation(entry.check))
    return shape;  // an operation on rows has parameters of its
                   // own
  if (entry.from_probs) shape.input = harness::RowInput::probabilities;
  for (const Operation& operation : entry.operations) {
    shape.parameters.push_back(operation.parameters);
  }
  shape.tie_rule = entry.operations.front().tie_rule;
  shape.filter_order = entry.operations.front().filter_order;
  if (entry.banned_tokens && !entry.from_probs) shape.allowed.resize(1);
  if (entry.processed) shape.processing.resize(1);
  if (entry.marked) {
    shape.mark_scheme = *entry.marked;
    shape.mark_key.resize(1);
  }
  return shape;
}

std::set<std::string_view> needs_of(const harness::Request& shape) {
  SamplerDescription able;
  for (const Ability& ability : kAbilities) able.*ability.member = true;
  std::set<std::string_view> needs;
  for (const Ability& ability : kAbilities) {
    able.*ability.member = false;
    if (harness::lack_for(able, shape).ability == ability.name) needs.insert(ability.name);
    able.*ability.member = true;
  }
  return needs;
}

// The features that each check exercises by itself, indexed by Check. A check that only compares
// tokens with the support of the row has no features here; its features follow from the rows.
const std::vector<Feature> kOfChecks[] = {
#define FAIRDRAW_CHECK(id, name, function, budget, looks_at, bug, reason, ...) {__VA_ARGS__},
#include "harness/run/evidence/checks.inc"
};

}  // namespace

std::vector<Feature> features_of(const Case& entry) {
  std::vector<Feature> features = kOfChecks[static_cast<std::size_t>(entry.check)];
  const harness::Request shape = shape_of(entry);
  const std::set<std::string_view> needs = needs_of(shape);
  const std::vector<std::string> names = harness::feature_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::vector<std::string_view> abilities = harness::abilities_of(names[i]);
    const bool needed = std::ranges::any_of(
        abilities, [&needs](std::string_view ability) { return needs.contains(ability); });
    if (needed) features.push_back(static_cast<Feature>(i));
  }
  for (const reference::RowParameters& row : shape.parameters) {
    if (row.temperature == 0) {
      features.push_back(Feature::greedy);
    } else if (row.temperature != 1) {
      features.push_back(Feature::temperature);
    }
  }
  std::ranges::sort(features);
  const auto [first, last] = std::ranges::unique(features);
  features.erase(first, last);
  return features;
}

void expect_features(const char* option, const std::vector<std::string>& names) {
  const std::vector<std::string> known = harness::feature_names();
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw harness::UsageError(
        fmt::format("{}: {}", option, harness::unknown_name_message("feature", name, known)));
  }
}

}  // namespace fairdraw::suites
