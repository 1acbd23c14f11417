// The numbers of rows that `batches`, `batches_law` and cases of other checks ask for.
#pragma once

#include <cstdint>

namespace fairdraw::harness {

/// Around what engines choose kernels by: one row, a warp's, a block's and a grid's worth of them,
/// more than any GPU has multiprocessors. Odd where it may be: the last group of rows is not whole.
/// Engines' batches are mostly powers of two: 8 and 16.
inline constexpr std::int64_t kBatchSizes[] = {1, 2, 3, 8, 16, 33, 65, 129, 257, 513};

/// `batches` asks for all of them where a case has this many different rows, else for two.
inline constexpr std::int64_t kRowsOfAllSizes = 5;

/// Calls that the rows of a case are shared out to: `chain` makes one for each number of drafted
/// tokens from 0 to 5, `verify` one for each shape of its requests. With fewer rows, so many of
/// these calls are made, of one chain or kLeastSpeculations requests: the case's seed decides
/// which.
inline constexpr std::int64_t kChainCalls = 6, kSpeculationCalls = 12;
/// Requests of a call of `verify`, whatever the rows.
inline constexpr std::int64_t kLeastSpeculations = 4;

}  // namespace fairdraw::harness
