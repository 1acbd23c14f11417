// process_logits: the processed rows themselves, for what needs more of them than a token.
//
// `sample` never stores a processed row. Log-probabilities of processed logits, verification of
// drafts and beam search need one: this writes it, with the same bits that `sample` works on.
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

/// Rows of logits, and what is done to them.
struct ProcessLogitsRequest {
  RowsView logits;                       ///< [rows, vocab]
  LogitsProcessing processing;           ///< penalties, bias and bans
  BitRows<const std::uint32_t> allowed;  ///< optional, one row per row of logits; bit 1: allowed
  View<const std::uint8_t> active;       ///< [rows]; optional; 0: padding
};

/// Destination of processed rows.
struct ProcessLogitsResult {
  /// One row a row of logits; banned tokens are -inf. A failed row is all -inf, an inactive one is
  /// left untouched. May be the logits themselves, where those are float32 and the strides equal.
  FloatRows processed;
  View<RowStatus> statuses;  ///< [rows], optional; no_allowed_token where all are -inf
};

/// Writes processed rows. On an error nothing is written; bad values fail their row alone.
Error process_logits(const ProcessLogitsRequest& request, const ProcessLogitsResult& result,
                     const Execution& execution = {});

}  // namespace fairdraw
