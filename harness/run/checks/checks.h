// Declares the checks of the gate. Each check judges one sampler on one input and takes at most the
// input's error budget; most checks take nothing, because they are exact. The file
// evidence/checks.inc is their table.
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

/// Returns whether a check compares p-values, so that it has a share of the error budget.
constexpr bool is_statistical(Check check) {
  return entry_of(check).budget == CheckEntry::Budget::statistical;
}

/// Compares draws that two samplers make from one row. The difference of the samplers over cells of
/// probability, and in each of some thousand sets of tokens, must not be larger than that of two
/// right samplers may be under the profile. The row's distribution only chooses the cells and sets;
/// the check does not judge whether the samplers follow it.
CheckOutcome check_same_distribution(const CheckInput& input, Sampler& other);

/// Compares the masks and support sizes of two samplers that both report them, except for tokens
/// that the profile leaves open. Tokens and statuses must also be equal if both samplers claim the
/// integer arithmetic.
CheckOutcome check_same_results(const CheckInput& input, Sampler& other);

}  // namespace fairdraw::harness
