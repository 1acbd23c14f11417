// Combines many p-values into one verdict.
#pragma once

#include <span>

namespace fairdraw::statistics {

/// Returns the Bonferroni p-value min(1, m * smallest), which is valid under any dependence. Holm's
/// method gives the same verdict, failed or passed, on the whole set.
double bonferroni_p_value(std::span<const double> p_values);

/// Returns Fisher's combination, the upper tail of -2 sum ln p under chi-squared(2m). For
/// independent tests. If p-values come from discrete statistics (stochastically larger than
/// uniform), Fisher's combination is conservative. Fisher's combination finds a small bias that all
/// tests have. A p-value of 0 gives 0.
double fisher_p_value(std::span<const double> p_values);

/// Returns min(1, 2 min(Bonferroni, Fisher)), as a single test of a whole run. For independent
/// tests.
double global_p_value(std::span<const double> p_values);

// Without p-values, all of these functions return 1, because there is no evidence. All p-values
// must be in [0, 1].

}  // namespace fairdraw::statistics
