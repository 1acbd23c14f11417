// The source of a case's rows of logits: a generated family or a captured file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "fairdraw/types.h"
#include "harness/inputs/captured_logits.h"
#include "harness/inputs/families.h"

namespace fairdraw::harness {

/// A source of rows of logits; each value is the exact float32 of the value stored in `dtype`.
class LogitsSource {
 public:
  virtual ~LogitsSource() = default;
  virtual std::string name() const = 0;
  virtual DType dtype() const = 0;
  virtual std::int64_t vocab() const = 0;
  /// Returns the number of different rows.
  virtual std::int64_t rows() const = 0;
  /// Writes row `row % rows()`; `out` has vocab() elements.
  virtual void fill(std::int64_t row, std::span<float> out) const = 0;
};

/// Returns a source of rows of a family, with `added` added to each logit, rounded to `dtype`.
std::unique_ptr<LogitsSource> family_source(Family family, std::uint64_t seed, std::int64_t vocab,
                                            DType dtype, float added = 0);

/// Returns a source of the same values, divided by `divisor`, in float32.
std::unique_ptr<LogitsSource> float32_source(std::unique_ptr<LogitsSource> source,
                                             float divisor = 1);

std::unique_ptr<LogitsSource> captured_source(std::shared_ptr<const CapturedLogits> captured);

/// Returns `value` rounded to dtype and converted back to float32.
float rounded_to(DType dtype, float value);

}  // namespace fairdraw::harness
