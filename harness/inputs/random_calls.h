// The only generator of whole calls for differential tests; it uses random_rows.h and
// processing_rows.h.
#pragma once

#include <cstdint>

#include "harness/inputs/owned_call.h"

namespace fairdraw::harness {

/// Generates a call with adversarial rows of `vocab` values from a number. In half of the calls
/// some parameters are out of range, and in some calls a parameter is a scalar. Calls have bad
/// rows, padding, masks, `indices` in and out of range, several samples, strides, odd addresses,
/// and every tie rule, filter order and purpose. The dtype of the call is number % 3. The generated
/// call has no logits processing.
OwnedCall random_call(std::uint64_t number, std::int64_t rows, std::int64_t vocab);

/// Gives each row of a call its own tie rule and filter order, from a number. With `faults`, some
/// rows get numbers that stand for no rule.
void make_rules_of_rows(std::uint64_t number, bool faults, OwnedCall& call);

/// Generates logits processing for a call from a number. Every feature is in about half of the
/// calls: lists of all lengths, repeated ids, placeholders, masks and counts instead of lists, and
/// counts and lengths that differ from the lists. In half of the calls some rows have faults: those
/// of ProcessingFault, and ids, lists, penalties, biases, counts and lengths beyond each end of
/// their ranges.
ProcessingArrays random_processing(std::uint64_t number, std::int64_t rows, std::int64_t vocab);

}  // namespace fairdraw::harness
