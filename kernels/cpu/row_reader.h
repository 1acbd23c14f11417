// From a row as the caller holds it (dtype, stride, alignment, banned tokens) to float32.
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
  /// The row as floats: the caller's own memory where that is float32, aligned and without banned
  /// tokens; else a buffer that is valid until the next call. Banned tokens become -inf (0 for
  /// probabilities). A row with banned tokens is checked before they vanish: the status says
  /// what is wrong with it, and the pointer is not to be used unless it is ok.
  const float* read(const Passes& passes, const RowsView& rows, std::int64_t row,
                    const std::uint32_t* allowed, bool from_probs, RowStatus& status);

  /// The same for logits, processed as row `processed_as` of `processing` says. The caller's own
  /// memory where nothing changes. `range`: which tokens the values are of.
  const float* read_processed(const Passes& passes, const RowsView& rows, std::int64_t row,
                              const LogitsProcessing& processing, std::int64_t processed_as,
                              const std::uint32_t* allowed, RowStatus& status,
                              const TokenRange& range = {});

  /// Writes the processed row to `out` (vocab floats, which may be the row itself) unless the
  /// returned status says what is wrong with it.
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
