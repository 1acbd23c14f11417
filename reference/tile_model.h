// Names of the integer model from when it was one of two.
#pragma once

#include "reference/integer_model.h"

namespace fairdraw::reference {

using TileRow = IntegerRow;

inline TileRow tile_model(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                          const RowParameters& parameters, TieRule tie_rule = TieRule::keep_all,
                          FilterOrder filter_order = FilterOrder::top_k_first) {
  return integer_model(logits, allowed, parameters, tie_rule, filter_order);
}

inline TileRow tile_model_from_probs(std::span<const float> probs, const RowParameters& parameters,
                                     FilterOrder filter_order = FilterOrder::top_k_first,
                                     bool top_k_1_keeps_ties = false) {
  return integer_model_from_probs(probs, parameters, filter_order, top_k_1_keeps_ties);
}

}  // namespace fairdraw::reference
