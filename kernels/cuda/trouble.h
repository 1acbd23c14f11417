// What can be wrong with a row's values and lists, as one number that blocks take the largest of.
#pragma once

#include <cstdint>

#include "fairdraw/types.h"
#include "host_device.h"

namespace fairdraw::cuda {

/// The larger comes first, where a row has several (kernels/common/processing_rules.h). 0: none.
enum class Trouble : std::uint32_t {
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
};

FAIRDRAW_HOST_DEVICE inline RowStatus status_of(Trouble trouble) {
  switch (trouble) {
    case Trouble::none:
      return RowStatus::ok;
    case Trouble::processing_overflow:
      return RowStatus::processing_overflow;
    case Trouble::invalid_allowed_ids:
      return RowStatus::invalid_allowed_ids;
    case Trouble::invalid_bad_words:
      return RowStatus::invalid_bad_words;
    case Trouble::invalid_min_tokens:
      return RowStatus::invalid_min_tokens;
    case Trouble::invalid_logit_bias:
      return RowStatus::invalid_logit_bias;
    case Trouble::invalid_history:
      return RowStatus::invalid_history;
    case Trouble::negative_probability:
      return RowStatus::negative_probability;
    case Trouble::infinite_input:
      return RowStatus::infinite_input;
    case Trouble::nan_input:
      return RowStatus::nan_input;
  }
  return RowStatus::ok;
}

}  // namespace fairdraw::cuda
