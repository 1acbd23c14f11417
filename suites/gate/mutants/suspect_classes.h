// Which causes that a report may suspect are the right ones for a class of mutants: the catalogue
// as a set of bugs whose answer is known.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "suites/gate/mutants/kill_matrix.h"

namespace fairdraw::suites {

/// Causes (names of suspects up to a colon, or the whole of them) that name a class; the class of a
/// reader who looks there finds the bug. Throws std::invalid_argument for a class without any.
std::span<const std::string_view> causes_of_class(std::string_view kind);

/// Whether a suspect is a cause of the class.
bool names_class(std::string_view suspect, std::string_view kind);

/// Of the killed mutants, how many have a first suspect that names their class.
struct NamedShare {
  std::size_t killed = 0, suspected = 0, named = 0;
};
NamedShare named_share(const KillMatrix& matrix);

}  // namespace fairdraw::suites
