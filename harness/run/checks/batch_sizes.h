// Lists the numbers of rows in the batches of `batches`, `batches_law` and some cases of other
// checks.
#pragma once

#include <cstdint>

namespace fairdraw::harness {

/// The batch sizes, around those by which engines choose kernels: one row, and as many rows as
/// fill a warp, a block or a grid, up to more than the SMs of any GPU. Most of these sizes are odd,
/// so that the last group of rows is not full; 8 and 16 are included because most batches of
/// engines are powers of two.
inline constexpr std::int64_t kBatchSizes[] = {1, 2, 3, 8, 16, 33, 65, 129, 257, 513};

/// The minimum number of different rows with which a case of `batches` makes all sizes; a case with
/// fewer rows makes two sizes.
inline constexpr std::int64_t kRowsOfAllSizes = 5;

/// The number of calls among which the rows of a case are divided: `chain` makes one call for each
/// number of drafted tokens from 0 to 5, and `verify` makes one for each shape of its requests. A
/// case with fewer rows makes only as many of these calls as it has rows, of one chain or
/// kMinSpeculations requests each; the case's seed selects which.
inline constexpr std::int64_t kChainCalls = 6, kSpeculationCalls = 12;
/// The number of requests in a call of `verify`, for any number of rows.
inline constexpr std::int64_t kMinSpeculations = 4;

}  // namespace fairdraw::harness
