// Which causes are the right ones for a class of mutants: the catalogue as a set of bugs whose
// answer is known.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "suites/gate/mutants/kill_matrix.h"

namespace fairdraw::suites {

/// Causes (their names up to a colon, or whole) that name a class: who looks there finds the bug.
/// Throws std::invalid_argument for a class without any.
std::span<const std::string_view> causes_of_class(std::string_view kind);

/// Whether a cause is one of the class.
bool names_class(std::string_view cause, std::string_view kind);

/// Whether a cause is right for a mutant: one of those that are declared for it (blind_trial.h), or
/// of its class where none are.
bool is_right(std::string_view cause, const Mutant& mutant);

/// Of the killed mutants that count: how many have a cause, and how many a first one that is right.
struct NamedShare {
  std::size_t killed = 0, with_cause = 0, named = 0;
};
NamedShare named_share(const KillMatrix& matrix, const std::function<bool(const Mutant&)>& counts);

}  // namespace fairdraw::suites
