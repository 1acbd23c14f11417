// Combines many p-values into one verdict.
#pragma once

#include <span>

namespace fairdraw::statistics {

/// Returns min(1, m * smallest). Returns the Bonferroni p-value, which is valid under any
/// dependence. Holm's method gives the same verdict on the whole set, failed or passed.
double bonferroni_p_value(std::span<const double> p_values);

/// Returns Fisher's combination, the upper tail of -2 sum ln p under chi-squared(2m). For
/// independent tests. P-values of discrete statistics (stochastically larger than uniform) make
/// Fisher's combination conservative. Fisher's combination finds a small bias that is in all tests.
/// A p-value of 0 gives 0.
double fisher_p_value(std::span<const double> p_values);

/// Returns min(1, 2 min(Bonferroni, Fisher)), a single test of a whole run. For independent tests.
double global_p_value(std::span<const double> p_values);

// All combinations return 1 without p-values, because there is no evidence. All p-values must be in
// [0, 1].

}  // namespace fairdraw::statistics
