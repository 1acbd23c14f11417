// The causes that are right for each class of mutants. With these classes, the catalogue is a set
// of bugs with known answers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "suites/gate/mutants/kill_matrix.h"

namespace fairdraw::suites {

/// Returns the causes (whole names, or names up to a colon) that lead to the bugs of a class.
/// Throws std::invalid_argument for a class without causes.
std::span<const std::string_view> causes_of_class(std::string_view kind);

/// Returns whether a cause is right for the class of mutants.
bool names_class(std::string_view cause, std::string_view kind);

/// Returns whether a cause is right for a mutant. A cause is right if it is declared for the mutant
/// (blind_trial.h), or, if no causes are declared, if it is right for the mutant's class.
bool is_right(std::string_view cause, const Mutant& mutant);

/// Numbers of mutants among those that were detected: all mutants, mutants with a cause, and
/// mutants whose first cause is right.
struct NamedShare {
  std::size_t killed = 0, with_cause = 0, named = 0;
};
NamedShare named_share(const KillMatrix& matrix, const std::function<bool(const Mutant&)>& counts);

}  // namespace fairdraw::suites
