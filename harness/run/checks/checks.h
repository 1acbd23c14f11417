// The checks of the gate. Each judges one sampler on one input and spends no more than the input's
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

/// By Check.
inline constexpr CheckEntry kChecks[] = {
#define FAIRDRAW_CHECK(id, name, function, budget, looks_at, bug, reason, ...) \
  {name, function, CheckEntry::Budget::budget, bug, reason},
#include "harness/run/evidence/checks.inc"
};

constexpr const CheckEntry& entry_of(Check check) {
  return kChecks[static_cast<std::size_t>(check)];
}

constexpr const char* to_string(Check check) { return entry_of(check).name; }

/// True where a check compares p-values, and so has a share of the error budget.
constexpr bool is_statistical(Check check) {
  return entry_of(check).budget == CheckEntry::Budget::statistical;
}

/// Draws of two samplers from one row: no difference in the distribution over cells of probability,
/// nor in any of some thousand sets of tokens, beyond what the profile lets two right samplers
/// differ by. The row's distribution chooses cells and sets; that it is right is no part of the
/// question.
CheckOutcome check_same_distribution(const CheckInput& input, Sampler& other);

/// The same masks and support sizes from two samplers, where both report them, except for tokens
/// that the profile leaves open; the same tokens and statuses where both claim the integer
/// arithmetic.
CheckOutcome check_same_results(const CheckInput& input, Sampler& other);

}  // namespace fairdraw::harness
