// Logits captured by an engine: .npy files, and what is wrong with a bad one.
#pragma once

#include <filesystem>

#include "harness/inputs/captured_logits.h"

namespace fairdraw::harness {

/// Reads a .npy of format 1.0, 2.0 or 3.0 with 1 or 2 axes: '<f4', '<f2', or '<u2' taken as
/// bfloat16 when `bfloat16` is set. Throws UsageError naming the file, the field, the value and
/// what is allowed: truncated, Fortran order, big endian, another dtype or rank, a shape that
/// overflows or exceeds the vocabulary's limit, no rows, bytes that nothing accounts for.
CapturedLogits load_npy(const std::filesystem::path& path, bool bfloat16);

}  // namespace fairdraw::harness
