// Finds parameters that the wrong rows of a call have in common, and the right rows do not. The
// files mask_suspects.cpp and token_suspects.cpp use this code.
#pragma once

#include <span>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// The rows of a call, divided into wrong and right rows.
struct SortedRows {
  std::vector<reference::RowParameters> wrong, right;
};

/// Names at most one parameter that distinguishes the wrong rows from the right ones: by a value at
/// which a parameter has a special meaning (temperature 0, top_p 1, a top_k above the vocabulary
/// size), otherwise by a threshold with all wrong rows on one side. A threshold on a parameter
/// needs at least three rows on each side.
void note_common_parameter(const SortedRows& rows, std::int64_t vocab, CheckOutcome& outcome);

}  // namespace fairdraw::harness
