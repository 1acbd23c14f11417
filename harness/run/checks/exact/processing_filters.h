// Filters by probability of the rows that the check of logits processing makes. For processing.cpp.
#pragma once

#include <cstddef>

#include "reference/processing_model.h"

namespace fairdraw::harness {

/// Turns on one of the filters by probability, and sometimes a second one, or gives the row a
/// chain, a temperature that follows the entropy, or logits of adaptive_p. `number` chooses.
void filter_by_probability(reference::RowProcessing& processing, std::size_t number);

}  // namespace fairdraw::harness
