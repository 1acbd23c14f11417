// Filter options of one row, in addition to the row's parameters (common/parameters.h).
#pragma once

#include "fairdraw/types.h"

namespace fairdraw::cpu {

struct FilterOptions {
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< whether top_k 1 keeps ties, as in the mask and renorm
                                    ///< operations
  /// True if the call requests only draws, so that a row that draws by proposals needs no
  /// threshold.
  bool draws_alone = false;
};

}  // namespace fairdraw::cpu
