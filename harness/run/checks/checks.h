// The checks of the gate. Each check judges one sampler on one input and spends at most the input's
// error budget; most spend nothing, because they are exact. evidence/checks.inc is their table.
#pragma once

#include <cstddef>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

enum class Check {
#define FAIRDRAW_CHECK(id, ...) id,
#include "harness/run/evidence/checks.inc"
};

#define FAIRDRAW_CHECK(id, name, function, ...) CheckOutcome function(const CheckInput& input);
#include "harness/run/evidence/checks.inc"

struct CheckEntry {
  enum class Budget { exact, statistical };
  const char* name;
  CheckOutcome (*run)(const CheckInput& input);
  Budget budget;
  const char *bug, *reason;
};

/// All checks, indexed by Check.
inline constexpr CheckEntry kChecks[] = {
#define FAIRDRAW_CHECK(id, name, function, budget, looks_at, bug, reason, ...) \
  {name, function, CheckEntry::Budget::budget, bug, reason},
#include "harness/run/evidence/checks.inc"
};

constexpr const CheckEntry& entry_of(Check check) {
  return kChecks[static_cast<std::size_t>(check)];
}

constexpr const char* to_string(Check check) { return entry_of(check).name; }

/// Returns whether a check compares p-values, and so has a share of the error budget.
constexpr bool is_statistical(Check check) {
  return entry_of(check).budget == CheckEntry::Budget::statistical;
}

/// Compares draws of two samplers from one row. The samplers must not differ in the distribution
/// over cells of probability, nor in any of some thousand sets of tokens, by more than two right
/// samplers may under the profile. The row's distribution only chooses the cells and sets; the
/// check does not judge whether the samplers follow it.
CheckOutcome check_same_distribution(const CheckInput& input, Sampler& other);

/// Compares masks and support sizes of two samplers that both report them, except for tokens that
/// the profile leaves open. Tokens and statuses must be equal if both samplers claim the integer
/// arithmetic.
CheckOutcome check_same_results(const CheckInput& input, Sampler& other);

}  // namespace fairdraw::harness
