// process_logits writes the processed rows, for callers that need more than a token of them.
//
// `sample` never stores a processed row. Log-probabilities of processed logits, acceptance of
// drafts and beam search need the processed row itself. process_logits writes it, with the same
// bits that `sample` works on.
//
// Errors: process_logits() returns the codes of fairdraw/sample.h, and writes nothing then. A row
// that fails has a status: inactive, a fault of its processing in the order of
// fairdraw/logits_processing.h, or no_allowed_token.
//
// Definition: fairdraw/logits_processing.h.
#pragma once

#include <cstdint>

#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Rows of logits, and the processing that is applied to them.
struct ProcessLogitsRequest {
  RowsView logits;                       ///< [rows, vocab]
  LogitsProcessing processing;           ///< penalties, biases, bans and filters of the rows
  BitRows<const std::uint32_t> allowed;  ///< optional, one row per row of logits; bit 1: the token
                                         ///< is allowed
  View<const std::uint8_t> active;       ///< [rows]; optional; 0: padding
};

/// Arrays in which processed rows are written.
struct ProcessLogitsResult {
  /// [rows, vocab]; banned tokens have -inf. A failed row is -inf at all ids, and an inactive row
  /// is left untouched. The array may be that of the logits, if these are float32 and the strides
  /// are equal.
  FloatRows processed;
  View<RowStatus> statuses;  ///< [rows], optional; no_allowed_token if all values of a row are -inf
};

/// Writes processed rows. If the call returns an error, nothing is written. A row with bad
/// values fails, and no other row fails with it.
Error process_logits(const ProcessLogitsRequest& request, const ProcessLogitsResult& result,
                     const Execution& execution = {});

}  // namespace fairdraw
