// Reads logits that an engine captured from .npy files, and explains what is wrong with a bad file.
#pragma once

#include <filesystem>

#include "harness/inputs/captured_logits.h"

namespace fairdraw::harness {

/// Reads a .npy file of format 1.0, 2.0 or 3.0 with 1 or 2 axes; the dtype is '<f4', '<f2', or
/// '<u2' as bfloat16 if `bfloat16` is set. Throws UsageError with the file, the field, the value
/// and the allowed values for truncated data, Fortran order, big endian, another dtype or rank, a
/// shape that overflows or exceeds the largest vocabulary, no rows, or trailing bytes.
CapturedLogits load_npy(const std::filesystem::path& path, bool bfloat16);

}  // namespace fairdraw::harness
