// Which parameters the wrong rows of a call have in common, and the right ones do not. For
// mask_suspects.cpp and token_suspects.cpp.
#pragma once

#include <span>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Rows of a call by whether they are right.
struct SortedRows {
  std::vector<reference::RowParameters> wrong, right;
};

/// Names the parameter that tells the wrong rows from the right ones: a value at which a parameter
/// means something special (temperature 0, top_p 1, a top_k above the vocabulary), else a threshold
/// with all wrong rows on one side of it. Nothing where there is none, and with fewer than three
/// rows on a side of a threshold. At most one suspect.
void note_common_parameter(const SortedRows& rows, std::int64_t vocab, CheckOutcome& outcome);

}  // namespace fairdraw::harness
