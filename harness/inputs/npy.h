// Logits captured by an engine: .npy files, and what is wrong with a bad one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// A matrix of logits as the file holds it.
struct CapturedLogits {
  std::string name;  ///< the file's name without folder and extension
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::vector<std::byte> data;  ///< rows x vocab values, C order, little endian

  /// Row `index` as float32 (exact). Throws std::out_of_range outside [0, rows).
  std::vector<float> row(std::int64_t index) const;
};

/// Reads a .npy of format 1.0, 2.0 or 3.0 with 1 or 2 axes: '<f4', '<f2', or '<u2' taken as
/// bfloat16 when `bfloat16` is set. Throws UsageError naming the file, the field, the value and
/// what is allowed: truncated, Fortran order, big endian, another dtype or rank, a shape that
/// overflows or exceeds the vocabulary's limit, no rows, bytes that nothing accounts for.
CapturedLogits load_npy(const std::filesystem::path& path, bool bfloat16);

}  // namespace fairdraw::harness
