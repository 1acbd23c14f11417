// The one generator of whole calls for differential tests, of random_rows.h and
// processing_rows.h.
#pragma once

#include <cstdint>

#include "harness/inputs/owned_call.h"

namespace fairdraw::harness {

/// Adversarial rows of `vocab` values and everything else of a call, from a number: parameters of
/// their own, in half of the calls some out of range, and each as a scalar in some calls; bad rows,
/// padding, masks, `indices` in and out of range, several samples, strides, odd addresses, every
/// tie rule, filter order and purpose. The dtype is number % 3. No processing.
OwnedCall random_call(std::uint64_t number, std::int64_t rows, std::int64_t vocab);

/// Logits processing for a call, from a number: every feature in about half of the calls, with
/// lists of all lengths, ids that repeat, placeholders, masks and counts instead of lists, counts
/// and lengths that differ from the lists. In half of the calls some rows have faults: those of
/// ProcessingFault, and ids, lists outside of their buffers, penalties, biases, counts and lengths
/// beyond every end.
ProcessingArrays random_processing(std::uint64_t number, std::int64_t rows, std::int64_t vocab);

}  // namespace fairdraw::harness
