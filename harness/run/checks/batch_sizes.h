// Numbers of rows in the batches of `batches`, `batches_law` and cases of other checks.
#pragma once

#include <cstdint>

namespace fairdraw::harness {

/// Batch sizes around those by which engines choose kernels: one row, and as many as fill a warp, a
/// block or a grid, up to more than the SMs of any GPU. Most batch sizes are odd, so that the last
/// group of rows is not full; 8 and 16 are included because most batches of engines are powers of
/// two.
inline constexpr std::int64_t kBatchSizes[] = {1, 2, 3, 8, 16, 33, 65, 129, 257, 513};

/// Minimum number of different rows of a case for `batches` to make all sizes; with fewer rows it
/// makes two.
inline constexpr std::int64_t kRowsOfAllSizes = 5;

/// Number of calls that the rows of a case are divided among: `chain` makes one for each number of
/// drafted tokens from 0 to 5, `verify` one for each shape of its requests. A case with fewer rows
/// makes only that many of these calls, of one chain or kLeastSpeculations requests each; its seed
/// decides which.
inline constexpr std::int64_t kChainCalls = 6, kSpeculationCalls = 12;
/// Number of requests in a call of `verify`, for any number of rows.
inline constexpr std::int64_t kLeastSpeculations = 4;

}  // namespace fairdraw::harness
