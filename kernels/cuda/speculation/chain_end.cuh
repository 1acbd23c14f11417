// Finds the first position at which a chain of drafted tokens ends, by testing all positions in
// parallel.
#pragma once

#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Outcome of a position. The outcome `open` means that the bounds leave the test of the position
/// undecided.
enum class Ending : std::uint32_t { goes_on, fails, stops, open };

struct Position {
  std::int64_t number;
  Ending ending;
  RowStatus status;  ///< status of the failure, for a position that fails
};

/// Returns the first position from `begin` to `last` at which the chain ends, to all threads of the
/// block. The function look_at(i) must return the outcome of position i; the chain always ends at
/// `last`.
template <class LookAt>
__device__ Position first_end(std::int64_t begin, std::int64_t last, const LookAt& look_at,
                              BlockScratch<std::uint64_t>& scratch) {
  constexpr int kBits = 8;
  constexpr std::uint64_t kMask = (1U << kBits) - 1U;
  std::uint64_t first = ~std::uint64_t{0};
  for (std::int64_t i = begin + threadIdx.x; i <= last; i += blockDim.x) {
    const Position position = look_at(i);
    if (position.ending == Ending::goes_on) continue;
    first = (static_cast<std::uint64_t>(i) << (2 * kBits)) |
            (static_cast<std::uint64_t>(position.ending) << kBits) |
            static_cast<std::uint64_t>(position.status);
    break;
  }
  first = reduce_block(first, scratch, Minimum{});
  return {static_cast<std::int64_t>(first >> (2 * kBits)),
          static_cast<Ending>((first >> kBits) & kMask), static_cast<RowStatus>(first & kMask)};
}

}  // namespace fairdraw::cuda
