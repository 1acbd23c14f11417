// Conversion of a row in the caller's memory (dtype, stride, alignment, banned tokens) to float32.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/logits_processor.h"
#include "cpu/passes/passes.h"
#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw::cpu {

class RowReader {
 public:
  /// Returns the row as floats: the caller's memory if it is float32, aligned and without banned
  /// tokens; otherwise a buffer that is valid until the next call. Banned tokens become -inf (0 for
  /// probabilities). A row with banned tokens is checked before these are overwritten: `status` is
  /// the row's first fault. The returned pointer may be used only if the status is ok.
  const float* read(const Passes& passes, const RowsView& rows, std::int64_t row,
                    const std::uint32_t* allowed, bool from_probs, RowStatus& status);

  /// Reads a row of logits with the processing of row `processed_as` of `processing`. Returns the
  /// caller's memory if processing changes nothing. `range`: the tokens of the vocabulary to which
  /// the values belong.
  const float* read_processed(const Passes& passes, const RowsView& rows, std::int64_t row,
                              const LogitsProcessing& processing, std::int64_t processed_as,
                              const std::uint32_t* allowed, RowStatus& status,
                              const TokenRange& range = {});

  /// Writes the processed row to `out` (vocab floats, which may be the row itself), if the row is
  /// valid. Otherwise returns the row's first fault.
  RowStatus write_processed(const Passes& passes, const RowsView& rows, std::int64_t row,
                            const LogitsProcessing& processing, const std::uint32_t* allowed,
                            float* out);

 private:
  RowStatus prepare(const Passes& passes, const float* values, std::size_t n,
                    const LogitsProcessing& processing, std::int64_t row, const TokenRange& range);
  const float* convert(const Passes& passes, const RowsView& rows, std::int64_t row);

  LogitsProcessor processor_;
  std::vector<float> values_;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace fairdraw::cpu
