// The choices of a profile by name, for code that lists, compares or tries them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reference/semantics.h"

namespace fairdraw::reference {

struct ChoiceValue {
  std::string name;
  std::function<void(Semantics&)> set;
  std::function<bool(const Semantics&)> is_set;
};

/// One member of Semantics, and all values that it may have. Members that are numbers have the
/// values of some profile.
struct Choice {
  std::string name;
  std::string meaning;  ///< as a question
  std::vector<ChoiceValue> values;

  /// The value that `semantics` has; throws std::logic_error where it is none of them.
  const ChoiceValue& of(const Semantics& semantics) const;
};

/// All choices but name and numeric slack (weight and sum errors, sequential sums, the resolution
/// of top_p, rounding of scaled logits), which is no definition.
std::span<const Choice> semantic_choices();

}  // namespace fairdraw::reference
