// Faults of a row's values and of its lists, as numbers; if there are several, the largest is
// reported.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Fault of a row. A row with several faults reports the largest
/// (kernels/common/processing_rules.h).
enum class RowFault : std::uint32_t {
  none = 0,
  processing_overflow,
  invalid_allowed_ids,
  invalid_bad_words,
  invalid_min_tokens,
  invalid_logit_bias,
  invalid_history,
  negative_probability,
  infinite_input,
  nan_input,
  invalid_history_rule,
  invalid_probability_filter,
  invalid_top_n_sigma,
  negative_min_tokens,
  invalid_penalty,
};

FAIRDRAW_HOST_DEVICE inline RowStatus status_of(RowFault fault) {
  switch (fault) {
    case RowFault::none:
      return RowStatus::ok;
    case RowFault::processing_overflow:
      return RowStatus::processing_overflow;
    case RowFault::invalid_allowed_ids:
      return RowStatus::invalid_allowed_ids;
    case RowFault::invalid_bad_words:
      return RowStatus::invalid_bad_words;
    case RowFault::invalid_min_tokens:
      return RowStatus::invalid_min_tokens;
    case RowFault::invalid_logit_bias:
      return RowStatus::invalid_logit_bias;
    case RowFault::invalid_history:
      return RowStatus::invalid_history;
    case RowFault::negative_probability:
      return RowStatus::negative_probability;
    case RowFault::infinite_input:
      return RowStatus::infinite_input;
    case RowFault::nan_input:
      return RowStatus::nan_input;
    case RowFault::invalid_history_rule:
      return RowStatus::invalid_history_rule;
    case RowFault::invalid_probability_filter:
      return RowStatus::invalid_probability_filter;
    case RowFault::invalid_top_n_sigma:
      return RowStatus::invalid_top_n_sigma;
    case RowFault::negative_min_tokens:
      return RowStatus::invalid_min_tokens;
    case RowFault::invalid_penalty:
      return RowStatus::invalid_penalty;
  }
  return RowStatus::ok;
}

}  // namespace fairdraw::cuda
