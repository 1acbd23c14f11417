// Lists the choices of a profile by name, for code that lists, compares or tries choices.
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

/// One member of Semantics, with all its possible values. For numeric members, the possible values
/// are those that some profile has.
struct Choice {
  std::string name;
  std::string meaning;  ///< as a question
  std::vector<ChoiceValue> values;

  /// Returns the value of this choice in `semantics`. Throws std::logic_error if the value is none
  /// of `values`.
  const ChoiceValue& of(const Semantics& semantics) const;
};

/// Returns all choices except the name and the numeric errors (weight and sum errors, sequential
/// sums, the resolution of top_p, rounding of scaled logits), which are not definitions.
std::span<const Choice> semantic_choices();

}  // namespace fairdraw::reference
