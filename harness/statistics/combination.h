// Combines many p-values into one verdict.
#pragma once

#include <span>

namespace fairdraw::statistics {

/// Returns min(1, m * smallest). Valid under any dependence. Holm's method gives the same verdict,
/// red or green.
double bonferroni_p_value(std::span<const double> p_values);

/// Returns the upper tail of -2 sum ln p under chi-squared(2m). For independent tests. P-values of
/// discrete statistics (stochastically larger than uniform) make it conservative. It finds a small
/// bias that is in all tests. A p-value of 0 gives 0.
double fisher_p_value(std::span<const double> p_values);

/// Returns min(1, 2 min(Bonferroni, Fisher)), a single test of a whole run. For independent tests.
double global_p_value(std::span<const double> p_values);

// All functions return 1 without p-values, because there is no evidence. Values must be in [0, 1].

}  // namespace fairdraw::statistics
