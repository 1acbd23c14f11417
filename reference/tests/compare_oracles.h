// Compares the two oracles on a row.
#pragma once

#include <string>

#include "reference/integer_model.h"
#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// Returns an empty string, or a description of how the integer model contradicts the real-number
/// oracle: a token of wrong membership, a support size outside its range, or a distribution that is
/// farther away than the bound.
std::string contradiction(const IntegerRow& row, const RealDistribution& distribution);

/// Returns the semantics of the profile `fairdraw` with these options.
Semantics fairdraw_semantics(TieRule tie_rule, FilterOrder filter_order);

/// Returns the total variation distance between the integer distribution and the real one.
double total_variation(const IntegerRow& row, const RealDistribution& distribution);

}  // namespace fairdraw::reference
