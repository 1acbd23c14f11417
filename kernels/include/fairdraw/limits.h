// Limits of what a call takes, besides those that belong to one of its fields.
//
// C++17, no dependency.
#pragma once

#include <cstdint>

namespace fairdraw {

/// Most bytes that an array may span, the room between its rows included: 256 TiB, which no machine
/// has. A length or a stride that reaches beyond is a mistake, and refused before anything is read.
inline constexpr std::int64_t kMaxArrayBytes = std::int64_t{1} << 48;

/// Most rows that a call on the CPU takes in parallel (Execution::threads).
inline constexpr int kMaxThreads = 1024;

}  // namespace fairdraw
