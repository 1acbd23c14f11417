// Many p-values, one verdict.
#pragma once

#include <span>

namespace fairdraw::statistics {

/// min(1, m * smallest). Valid whatever the dependence. Holm's verdict, red or green, is the same.
double bonferroni_p_value(std::span<const double> p_values);

/// Upper tail of -2 sum ln p under chi-squared(2m). For independent tests; p-values of discrete
/// statistics (stochastically larger than uniform) make it conservative. Finds a small bias that
/// is everywhere. A p-value of 0 gives 0.
double fisher_p_value(std::span<const double> p_values);

/// One look at a whole run: min(1, 2 min(Bonferroni, Fisher)). For independent tests.
double global_p_value(std::span<const double> p_values);

// No p-values at all give 1 everywhere: there is no evidence. Values must lie in [0, 1].

}  // namespace fairdraw::statistics
