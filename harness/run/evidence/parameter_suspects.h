// Finds parameters that the wrong rows of a call have in common, and the right ones do not. Used by
// mask_suspects.cpp and token_suspects.cpp.
#pragma once

#include <span>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Rows of a call, divided into wrong and right ones.
struct SortedRows {
  std::vector<reference::RowParameters> wrong, right;
};

/// Names at most one parameter that tells the wrong rows from the right ones: by a value at which a
/// parameter means something special (temperature 0, top_p 1, a top_k above the vocabulary),
/// otherwise by a threshold with all wrong rows on one side. A threshold on a parameter needs at
/// least three rows on each side.
void note_common_parameter(const SortedRows& rows, std::int64_t vocab, CheckOutcome& outcome);

}  // namespace fairdraw::harness
