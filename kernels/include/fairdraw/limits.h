// General limits of a call; limits of a single field are in the field's comment.
//
// C++17, no dependency.
#pragma once

#include <cstdint>

namespace fairdraw {

/// Largest number of bytes that an array may span, gaps between its rows included: 256 TiB, more
/// than any machine has. A length or a stride that reaches beyond this limit is a mistake, and is
/// refused before anything is read.
inline constexpr std::int64_t kMaxArrayBytes = std::int64_t{1} << 48;

/// Largest number of rows that a call on the CPU works on in parallel (Execution::threads).
inline constexpr int kMaxThreads = 1024;

}  // namespace fairdraw
