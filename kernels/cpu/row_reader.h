// Conversion of a row in the caller's memory (any dtype, stride and alignment, with banned tokens)
// to float32.
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
  /// Returns the row as floats. The result is the caller's memory if the row is float32, aligned
  /// and without banned tokens; otherwise it is a buffer that is valid until the next call. Banned
  /// tokens become -inf (0 for probabilities). A row with banned tokens is checked before these are
  /// overwritten; `status` is set to the first fault of the row. The pointer that is returned may
  /// be used only if the status is ok.
  const float* read(const Passes& passes, const RowsView& rows, std::int64_t row,
                    const std::uint32_t* allowed, bool from_probs, RowStatus& status);

  /// Reads a row of logits, and applies the logits processing of row `processed_as` in
  /// `processing`. If the processing changes nothing, the result is the caller's memory. `range`
  /// has the tokens of the vocabulary to which the values belong.
  const float* read_processed(const Passes& passes, const RowsView& rows, std::int64_t row,
                              const LogitsProcessing& processing, std::int64_t processed_as,
                              const std::uint32_t* allowed, RowStatus& status,
                              const TokenRange& range = {});

  /// Returns the temperature of the row that read_processed() has read last, if its request's is
  /// `temperature`.
  float temperature_now(float temperature) const { return processor_.temperature_now(temperature); }

  /// Writes the processed row to `out`, which has room for vocab floats and may be the row itself,
  /// if the row is valid. If the row is not valid, returns its first fault.
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
