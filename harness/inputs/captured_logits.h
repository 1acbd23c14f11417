// A matrix of logits that an engine captured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Returns the number of bytes of one value.
std::size_t value_size(DType dtype);

/// The matrix of logits as it is stored in the file.
struct CapturedLogits {
  std::string name;  ///< name of the file without folder and extension
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::vector<std::byte> data;  ///< rows x vocab values, in C order, little endian

  /// Returns row `index` as float32, exactly. Throws std::out_of_range if `index` is outside [0,
  /// rows).
  std::vector<float> row(std::int64_t index) const;
};

}  // namespace fairdraw::harness
