// How one row is filtered, besides its parameters (common/parameters.h).
#pragma once

#include "fairdraw/types.h"

namespace fairdraw::cpu {

struct FilterOptions {
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< the mask and renorm operations
  /// Nothing is asked of the survivors but draws: a row that proposes looks for no threshold.
  bool draws_alone = false;
};

}  // namespace fairdraw::cpu
